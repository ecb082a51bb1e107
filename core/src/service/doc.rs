//! Values that the examples of the documentation begin with.

/// A clock that stands at 1 000 and whose waits are over at once.
#[derive(Debug)]
pub struct StoppedClock;

impl super::Clock for StoppedClock {
    fn now(&self) -> crate::Instant {
        crate::Instant::from_millis(1_000).expect("an instant")
    }

    fn sleep(&self, _: u64) -> futures_util::future::BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}
