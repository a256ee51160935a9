//! What comes in: the arrival of a request, and its body under a cap and a deadline.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use hyper::body::{Body, Frame};
use ledger::Arrival;
use vocabulary::{ReceiptId, TraceId};

/// How long a client may take to send a body.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// A request arrives: it has a receipt's name and a trace from now on.
pub(crate) fn arrival(headers: &HeaderMap, address: IpAddr) -> Arrival {
    let traced = headers
        .get("traceparent")
        .and_then(|value| TraceId::from_traceparent(value.to_str().ok()?));
    Arrival {
        receipt_id: ReceiptId::mint(),
        trace_id: traced.unwrap_or_else(TraceId::mint),
        address,
        size_bytes_in: 0,
        began: Instant::now(),
    }
}

/// Why there is no body.
pub(crate) enum BodyFault {
    TooLarge,
    Unfinished,
}

/// Reads a body under the cap and the deadline; the arrival learns its size.
pub(crate) async fn read_body<B>(mut body: B, max_bytes: usize, arrival: &mut Arrival) -> Result<Bytes, BodyFault>
where
    B: Body<Data = Bytes> + Unpin,
{
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > max_bytes {
        return Err(BodyFault::TooLarge);
    }
    let read = async {
        let mut whole = BytesMut::new();
        let mut only = None;
        while let Some(frame) = poll_fn(|context| next_frame(&mut body, context)).await {
            let Ok(data) = frame.map_err(|_| BodyFault::Unfinished)?.into_data() else {
                continue;
            };
            arrival.size_bytes_in += data.len() as u64;
            if arrival.size_bytes_in > max_bytes as u64 {
                return Err(BodyFault::TooLarge);
            }
            match only.take() {
                None if whole.is_empty() => only = Some(data),
                earlier => {
                    whole.extend_from_slice(&earlier.unwrap_or_default());
                    whole.extend_from_slice(&data);
                }
            }
        }
        Ok(only.unwrap_or_else(|| whole.freeze()))
    };
    let mut read = std::pin::pin!(read);
    // A body that came together with its head needs no clock.
    match poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
        Poll::Ready(read) => read,
        Poll::Pending => tokio::time::timeout(BODY_DEADLINE, read)
            .await
            .unwrap_or(Err(BodyFault::Unfinished)),
    }
}

/// Its connection is not run again to read on where the body is whole and both are one task.
fn next_frame<B>(body: &mut B, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (polled, read_on) = upstream::suppress_wakes(|| Pin::new(&mut *body).poll_frame(context));
    if let Some(read_on) = read_on
        && !(body.is_end_stream() && read_on.is_for(context))
    {
        read_on.wake();
    }
    polled
}
