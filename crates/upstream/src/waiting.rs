//! What the ports of this room give back: their implementors wait in ways of their own.

use std::future::Future;
use std::pin::Pin;

/// Something to be waited for.
pub type Waiting<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
