//! What tells a loop to look sooner.

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::Notify;

/// Tells the loop of a driver that there may be something to do.
///
/// It is a hint: one that is lost makes a driver late by its poll, and one too many has it look in
/// vain. A host with several processes may bring one that reaches all of them.
pub trait Wake: Send + Sync {
    /// Wakes whoever waits; where nobody does, the next wait is over at once.
    fn wake(&self);

    /// Waits until woken. Several wakes since the last wait count as one, and a wait that is dropped
    /// takes none away.
    fn woken(&self) -> BoxFuture<'_, ()>;
}

/// Wakes one loop of the same process.
///
/// # Examples
///
/// ```
/// use futures_util::FutureExt;
/// use recount_core::service::{LocalWake, Wake};
///
/// let wake = LocalWake::default();
/// assert_eq!(wake.woken().now_or_never(), None);
/// wake.wake();
/// wake.wake();
/// assert_eq!(wake.woken().now_or_never(), Some(()));
/// assert_eq!(wake.woken().now_or_never(), None);
/// ```
#[derive(Debug, Default)]
pub struct LocalWake(Notify);

impl Wake for LocalWake {
    fn wake(&self) {
        self.0.notify_one();
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.0.notified().boxed()
    }
}
