//! The loop that keeps a driver at work.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
    future::poll_fn,
    ops::Range,
    pin::pin,
    task::{Context, Poll},
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::{DeliveryDriver, DeliveryFailure};
use crate::{
    DecodeError, Instant,
    delivery::{BatchSize, MAX_BATCH, MessageDeliveryKey},
    log::{Damage, ReadError},
};

/// How long a message is left alone after a failure: a second, and a hundredth of one for each other
/// that failed, so that no more than a hundred fail in a second, however many there are.
const PAUSE_MILLIS: u64 = 1_000;
const PAUSE_PER_FAILED_MILLIS: u64 = 10;

impl DeliveryDriver {
    /// Delivers what is due, until it is told to stop.
    ///
    /// It begins an attempt wherever one is due and there is room for it, so that a slow destination
    /// holds up nothing but its own messages, and sleeps until the next deadline, a wake or its
    /// poll. A failure is reported as an event of `tracing` and stops nothing: the message that it
    /// happened to is left alone for a second, or longer where many fail.
    ///
    /// Told to stop, it begins nothing new and returns when what is under way is recorded, which
    /// takes no longer than the longest attempt may. Dropped, it leaves attempts behind whose
    /// leases end by themselves, as a crash does.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        let mut round = Round::of(self, stop.boxed());
        while !round.is_stopped {
            let next = round.look().await;
            let now = self.clock().now();
            let next = next.unwrap_or_else(|error| {
                tracing::error!(error = told(&error), "what is due is not known");
                Some(now.saturating_add(PAUSE_MILLIS))
            });
            let until = next.map(|next| next.as_millis().saturating_sub(now.as_millis()));
            round
                .wait(until.map_or(self.poll_millis(), |until| until.min(self.poll_millis())))
                .await;
        }
        while let Some(ended) = round.attempts.next().await {
            round.ended(ended);
        }
    }
}

type Ended = (MessageDeliveryKey, Result<(), DeliveryFailure>);

/// What the loop has begun, and what it leaves alone.
struct Round<'a> {
    driver: &'a DeliveryDriver,
    stop: BoxFuture<'a, ()>,
    is_stopped: bool,
    attempts: FuturesUnordered<BoxFuture<'a, Ended>>,
    under_way: HashSet<MessageDeliveryKey>,
    /// From when until when messages that failed are left alone.
    failed: HashMap<MessageDeliveryKey, Range<Instant>>,
}

impl<'a> Round<'a> {
    fn of(driver: &'a DeliveryDriver, stop: BoxFuture<'a, ()>) -> Self {
        Self {
            driver,
            stop,
            is_stopped: false,
            attempts: FuturesUnordered::new(),
            under_way: HashSet::new(),
            failed: HashMap::new(),
        }
    }

    /// Begins what is due and has room, and returns when the next is due that was not begun; `None`
    /// where that is not known or nothing is.
    async fn look(&mut self) -> Result<Option<Instant>, ReadError> {
        let driver = self.driver;
        let (mut next, mut after) = (None::<Instant>, None);
        loop {
            let most = driver.concurrency() + self.under_way.len() + self.failed.len() + 1;
            let limit = BatchSize::new(most.min(MAX_BATCH)).unwrap_or(BatchSize::MAX);
            let page = driver.due_index().upcoming(after.as_ref(), limit);
            let page = self.alongside(page).await?;
            let now = driver.clock().now();
            self.failed.retain(|_, alone| alone.contains(&now));
            let is_last = page.len() < limit.get();
            after = page.last().cloned();
            for (due, key) in page {
                let look = self.failed.get(&key).map_or(due, |alone| alone.end.max(due));
                if look > now {
                    next = Some(next.map_or(look, |next| next.min(look)));
                } else if self.under_way.contains(&key) {
                    // Its end has the loop look again.
                } else if self.is_stopped || self.attempts.len() == driver.concurrency() {
                    return Ok(None);
                } else {
                    self.begin(key);
                }
                if due > now {
                    return Ok(next);
                }
            }
            if is_last {
                return Ok(next);
            }
        }
    }

    fn begin(&mut self, key: MessageDeliveryKey) {
        let driver = self.driver;
        self.under_way.insert(key.clone());
        let attempt = async move {
            let result = driver.process(&key).await.map(drop);
            (key, result)
        };
        self.attempts.push(attempt.boxed());
    }

    fn ended(&mut self, (key, result): Ended) {
        self.under_way.remove(&key);
        if let Err(error) = result {
            tracing::error!(%key, error = told(&error), "an attempt failed");
            let now = self.driver.clock().now();
            let others = u64::try_from(self.failed.len()).unwrap_or(u64::MAX);
            let pause = PAUSE_MILLIS.saturating_add(others.saturating_mul(PAUSE_PER_FAILED_MILLIS));
            self.failed.insert(key, now..now.saturating_add(pause));
        }
    }

    /// Does something, and goes on with what is under way.
    async fn alongside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.poll(context);
            work.as_mut().poll(context)
        })
        .await
    }

    /// Waits so long, or until an attempt ends, a wake, or the stop.
    async fn wait(&mut self, millis: u64) {
        let mut woken = self.driver.wake().woken();
        let mut slept = self.driver.clock().sleep(millis);
        poll_fn(|context| {
            let is_over = self.poll(context)
                || woken.poll_unpin(context).is_ready()
                || slept.poll_unpin(context).is_ready();
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Goes on with what is under way, and says whether any of it ended or all of it is to.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let mut has_ended = false;
        while let Poll::Ready(Some(ended)) = self.attempts.poll_next_unpin(context) {
            self.ended(ended);
            has_ended = true;
        }
        self.is_stopped = self.is_stopped || self.stop.poll_unpin(context).is_ready();
        has_ended || self.is_stopped
    }
}

/// An error with its causes, but for those that may quote what an event holds.
fn told(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let causes = causes.take_while(|cause| !cause.is::<Damage>() && !cause.is::<DecodeError>());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}
