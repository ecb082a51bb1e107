//! The machine's own clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{FutureExt, future::BoxFuture};
use recount_core::{Instant, service::Clock};

/// The machine's clock, with the timer of tokio.
///
/// It is for hosts: nothing in Recount reads it by itself.
///
/// # Examples
///
/// ```
/// use recount::{SystemClock, service::Clock};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let before = SystemClock.now();
/// SystemClock.sleep(2).await;
/// assert!(SystemClock.now() > before);
/// # });
/// # Ok::<_, std::io::Error>(())
/// ```
///
/// # Panics
///
/// A wait outside a tokio runtime with a timer.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// The milliseconds since 1970; 0 before that.
    fn now(&self) -> Instant {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Instant::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            .unwrap_or(Instant::MAX)
    }

    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()> {
        tokio::time::sleep(Duration::from_millis(millis)).boxed()
    }
}
