//! Names to addresses, on the host. A name can be looked up only with the proof that it is on the list.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use crate::egress::allow::AllowedDestination;

/// The addresses of a name, once they are known.
pub type Answers<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Looks names up outside the sandbox.
pub trait Resolve: Send + Sync {
    /// Every address of the destination's host.
    fn lookup<'a>(&'a self, destination: &'a AllowedDestination) -> Answers<'a>;
}

/// The resolver of the host: `getaddrinfo`, with the host's own `hosts` file and search list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostResolver;

impl Resolve for HostResolver {
    fn lookup<'a>(&'a self, destination: &'a AllowedDestination) -> Answers<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((destination.host().as_str(), destination.port())).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
