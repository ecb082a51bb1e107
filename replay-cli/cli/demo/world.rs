//! What the demo's host reaches: a clock of its own, and destinations that do as the script says.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{FutureExt, future::BoxFuture};
use recount_core::{
    Diagnostic, Envelope, Failure, Instant, Outcome, Receipt, ReceiptId, RefusalCode, Settlement,
    SettlementId, SubmissionId, ThreadId,
    delivery::MessageDeliveryKey,
    service::{
        Admission, AdmissionError, Clock, Failpoint, FailpointError, Point, SubmissionStatus,
    },
};

use super::script::{Random, Step};

/// 2026-11-30T09:00:00.000Z: the demo reads no clock, so that a seed always writes the same bytes.
const START_MILLIS: u64 = 1_796_029_200_000;

/// Everything around the log. Clones are the same.
#[derive(Clone)]
pub(super) struct World(Arc<Mutex<State>>);

struct State {
    now: Instant,
    random: Random,
    scripts: BTreeMap<MessageDeliveryKey, VecDeque<Step>>,
    /// What was admitted under each key, and how much at each destination.
    receipts: HashMap<MessageDeliveryKey, Receipt>,
    queues: HashMap<ThreadId, u64>,
    /// Whether the host dies before it has recorded the answer that it just got.
    dies: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            now: Instant::from_millis(START_MILLIS).expect("the start is an instant"),
            random: Random(seed),
            scripts: BTreeMap::new(),
            receipts: HashMap::new(),
            queues: HashMap::new(),
            dies: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // One thread holds it, and never across a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws from the numbers of the seed.
    pub(super) fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.state().random)
    }

    /// Lets some time go by, up to so much.
    pub(super) fn wait(&self, up_to_millis: usize) {
        let millis = 1 + self.draw(|random| random.below(up_to_millis));
        self.state().advance(u64::try_from(millis).unwrap_or(1));
    }

    /// Lets time go by until then, where that is to come.
    pub(super) fn wait_until(&self, at: Instant) {
        let mut state = self.state();
        state.now = state.now.max(at);
    }

    pub(super) fn set_script(&self, key: MessageDeliveryKey, steps: VecDeque<Step>) {
        self.state().scripts.insert(key, steps);
    }

    /// The messages whose next step is this one, in the order of their keys.
    pub(super) fn that_wait_for(&self, step: Step) -> Vec<MessageDeliveryKey> {
        let state = self.state();
        let waiting = state.scripts.iter().filter(|(_, steps)| steps.front() == Some(&step));
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// Takes the next step of a message; what has none left is still worked on.
    pub(super) fn step(&self, key: &MessageDeliveryKey) -> Step {
        let next = self.state().scripts.get_mut(key).and_then(VecDeque::pop_front);
        next.unwrap_or(Step::Working)
    }

    /// Asks a destination, which takes its time.
    async fn ask(&self, key: &MessageDeliveryKey) -> Result<Step, AdmissionError> {
        self.wait(400);
        let step = self.step(key);
        match step {
            Step::Slow => self.sleep(3_000).await,
            Step::Silent => std::future::pending().await,
            Step::Lost => self.state().dies = true,
            Step::Refuse => {
                let code = RefusalCode::new("unwanted").expect("a code");
                let diagnostic = Some(Box::new(Diagnostic::text("no agent here takes offers")));
                return Err(AdmissionError::Refused { code, diagnostic });
            }
            Step::Unknown => {
                let code = RefusalCode::new("unknown").expect("a code");
                let diagnostic = Some(Box::new(Diagnostic::text("the destination lost its queue")));
                return Err(AdmissionError::Refused { code, diagnostic });
            }
            Step::Retry(reason) => {
                let diagnostic = Some(Box::new(Diagnostic::text("connection closed by peer")));
                return Err(AdmissionError::Retryable { reason, diagnostic });
            }
            Step::Corrupt => {
                let diagnostic = Some(Box::new(Diagnostic::text("page 7 has a bad checksum")));
                return Err(AdmissionError::Corrupt { diagnostic });
            }
            _ => {}
        }
        Ok(step)
    }
}

impl State {
    fn advance(&mut self, millis: u64) {
        self.now = self.now.saturating_add(millis);
    }

    /// Takes an input once under its key, and answers as the first time.
    fn admit(&mut self, key: &MessageDeliveryKey, to: &ThreadId) -> Receipt {
        if let Some(receipt) = self.receipts.get(key) {
            return receipt.clone();
        }
        let place = self.queues.entry(to.clone()).or_default();
        *place += 1;
        let receipt = Receipt {
            queue_sequence: *place,
            receipt_id: ReceiptId::new(key.to_string()).expect("a key is an id"),
            submission_id: SubmissionId::new(format!("submission-{place}")).expect("an id"),
            thread_id: to.clone(),
        };
        self.receipts.insert(key.clone(), receipt.clone());
        receipt
    }

    fn settle(&self, receipt: &Receipt, outcome: Outcome) -> Settlement {
        let failure = (outcome == Outcome::Failed).then(|| Failure {
            context: None,
            diagnostic: None,
            error_tag: "ToolFailed".to_owned(),
            message: "the agent's tool did not answer".to_owned(),
        });
        let id = format!("settlement-{}", receipt.queue_sequence);
        Settlement {
            failure,
            outcome,
            receipt_id: receipt.receipt_id.clone(),
            run_disposition: None,
            settled_at: self.now.to_string(),
            settlement_id: SettlementId::new(id).expect("an id"),
            submission_id: receipt.submission_id.clone(),
            usage_summary: None,
        }
    }
}

/// Admission keys and receipts of the demo are the keys of its messages.
fn key_of(text: &str) -> MessageDeliveryKey {
    text.parse().expect("the demo's keys are keys")
}

impl Clock for World {
    fn now(&self) -> Instant {
        self.state().now
    }

    /// Time goes by once somebody waits for it.
    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()> {
        let world = self.clone();
        async move { world.state().advance(millis) }.boxed()
    }
}

impl Admission for World {
    fn submit<'a>(
        &'a self,
        envelope: &'a Envelope,
    ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
        async move {
            let key = key_of(&envelope.admission_key);
            self.ask(&key).await?;
            Ok(self.state().admit(&key, &envelope.thread_id))
        }
        .boxed()
    }

    fn submission_status<'a>(
        &'a self,
        receipt: &'a Receipt,
    ) -> Option<BoxFuture<'a, Result<SubmissionStatus, AdmissionError>>> {
        let answer = async move {
            let outcome = match self.ask(&key_of(&receipt.receipt_id)).await? {
                Step::Complete => Outcome::Completed,
                Step::Fail => Outcome::Failed,
                _ => return Ok(SubmissionStatus::Pending),
            };
            Ok(SubmissionStatus::Settled(Box::new(self.state().settle(receipt, outcome))))
        };
        Some(answer.boxed())
    }
}

impl Failpoint for World {
    fn hit(&self, point: Point) -> Result<(), FailpointError> {
        let dies = point == Point::AfterAnswer && std::mem::take(&mut self.state().dies);
        if dies { Err(FailpointError { point }) } else { Ok(()) }
    }
}
