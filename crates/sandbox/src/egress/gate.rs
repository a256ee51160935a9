//! The way from inside a sandbox to the gateway and to nowhere else: bytes go to one address, which is not the
//! sandbox's to choose. What may be asked there is the gateway's to decide, by the token that is shown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::tunnel::reset;

/// The port of the gate inside, on the loopback address.
pub const GATE_PORT: u16 = 3129;

/// An attended gate. Dropping it closes it and every connection through it.
#[derive(Debug)]
pub struct Gate(JoinHandle<()>);

impl Gate {
    /// Leads every connection to `gateway`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the listener cannot be attended; the sandbox must not be let go then.
    pub fn serve(listener: std::net::TcpListener, gateway: SocketAddr) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Self(tokio::spawn(attend(listener, gateway))))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn attend(listener: TcpListener, gateway: SocketAddr) {
    let seats = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok(seat) = seats.clone().acquire_owned().await else {
            return;
        };
        let Ok((near, _)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        connections.spawn(async move {
            let _seat = seat;
            carry(near, gateway).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(mut near: TcpStream, gateway: SocketAddr) {
    match timeout(STEP, TcpStream::connect(gateway)).await {
        Ok(Ok(mut far)) => {
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let _ = copy_bidirectional(&mut near, &mut far).await;
        }
        Ok(Err(_)) | Err(_) => reset(near),
    }
}

const MOST_CONNECTIONS: usize = 64;
const STEP: Duration = Duration::from_secs(10);
const BREATH: Duration = Duration::from_millis(50);
