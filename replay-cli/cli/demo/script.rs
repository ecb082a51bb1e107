//! What is sent in the demo, and what becomes of it.

use std::collections::VecDeque;

use recount_core::{
    Digest, Instant, MessageId, PersistedJson, PreparedInput, ThreadId,
    delivery::{MessageDeliveryKey, MessageDeliveryPolicy, PrepareMessage, RetryReason},
};
use serde_json::{Value, json};

/// What comes of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The destination admits it.
    Accept,
    /// The destination does not want it.
    Refuse,
    /// It may be tried again.
    Retry(RetryReason),
    /// It admits it late, and in time.
    Slow,
    /// There is no answer.
    Silent,
    /// It admits it, and the host dies with the answer.
    Lost,
    /// The host's own storage is corrupt.
    Corrupt,
    /// The destination still works on it.
    Working,
    /// The destination is done.
    Complete,
    /// The destination failed.
    Fail,
    /// The destination does not know what became of it.
    Unknown,
    /// It says by itself that it is done, so that it is asked at once.
    Told,
    /// A person wants it to wait, before it was tried.
    Park,
    /// A person has it tried again.
    Recover,
}

use Step::{
    Accept, Complete, Corrupt, Fail, Lost, Park, Recover, Refuse, Retry, Silent, Slow, Told,
    Unknown, Working,
};

/// A message with what becomes of it.
pub(super) struct Planned {
    pub(super) message: PrepareMessage,
    pub(super) steps: VecDeque<Step>,
}

/// One kind of message: its subject and its story.
type Story = (&'static str, &'static [Step]);

const STORIES: &[Story] = &[
    ("brief", &[Slow, Working, Complete]),
    ("question", &[Retry(RetryReason::Transport), Silent, Accept, Complete]),
    ("answer", &[Lost, Accept, Working, Working, Complete]),
    ("offer", &[Refuse]),
    ("follow-up", &[Accept, Complete]),
    ("report", &[Retry(RetryReason::Capacity); 3]),
    ("review", &[Accept, Unknown, Recover, Complete]),
    ("order", &[Corrupt, Accept, Working, Fail]),
    (
        "invoice",
        &[
            Retry(RetryReason::HostClosed),
            Retry(RetryReason::Ambiguous),
            Retry(RetryReason::Storage),
            Recover,
            Accept,
            Complete,
        ],
    ),
    ("progress", &[Accept, Told, Complete]),
    ("draft", &[Park, Recover, Accept, Silent, Complete]),
];

const THREADS: &[&str] = &["planner", "researcher", "ops/night shift"];

/// The messages of a seed, in the order in which they are prepared.
pub(super) fn plan(random: &mut Random, now: Instant) -> Vec<Planned> {
    let mut planned: Vec<Planned> = Vec::new();
    for (index, owner) in THREADS.iter().enumerate() {
        for (number, (subject, steps)) in STORIES.iter().enumerate() {
            // Not every agent sends everything; the first of them does, so that all is shown.
            if index > 0 && random.below(10) < 3 {
                continue;
            }
            let to = THREADS[(index + 1 + random.below(2)) % THREADS.len()];
            let id = format!("{subject}-{}", number + 1);
            let mut message = message(owner, to, &id, subject, now);
            if *subject == "follow-up" {
                // It waits behind the message whose first answer is lost.
                let first = planned.iter().map(|it| &it.message.key).find(|key| {
                    *key.owner_thread_id == **owner && key.message_id.starts_with("answer")
                });
                message.predecessor = first.map(|key| key.message_id.clone());
            }
            planned.push(Planned { message, steps: steps.iter().copied().collect() });
        }
    }
    planned
}

fn message(owner: &str, to: &str, id: &str, subject: &str, now: Instant) -> PrepareMessage {
    let text = format!("{subject} for {to}");
    let update = (subject == "progress").then(|| json!({"_tag": "WorkerUpdate", "sequence": 1}));
    let key = MessageDeliveryKey { owner_thread_id: name(owner), message_id: message_id(id) };
    PrepareMessage {
        envelope: envelope(to, &key.to_string(), &json!({"text": text}), update),
        key,
        created_at_millis: now,
        deadline_at_millis: now.saturating_add(3_600_000),
        policy: MessageDeliveryPolicy {
            max_automatic_attempts: 3,
            attempt_timeout_millis: 5_000,
            ..Default::default()
        },
        predecessor: None,
    }
}

fn envelope(to: &str, admission_key: &str, input: &Value, update: Option<Value>) -> PreparedInput {
    let input = PersistedJson::from_value(input).expect("the demo's inputs are small");
    let definition = |name: &str| Digest::of_bytes(name.as_bytes());
    let mut envelope = json!({
        "schemaVersion": 1,
        "threadId": to,
        "deliveryPrincipal": "demo",
        "agentId": to,
        "definitions": {
            "agent": definition("agent"), "model": definition("model"), "tools": definition("tools"),
        },
        "inputDigest": input.digest(),
        "input": input,
        "admissionKey": admission_key,
        "authorization": {"policyId": "demo", "decisionId": "allowed"},
    });
    if let Some(update) = update {
        envelope["messageAdmission"] = update;
    }
    serde_json::from_value(envelope).expect("the demo's envelopes are valid")
}

fn name(text: &str) -> ThreadId {
    ThreadId::new(text).expect("the demo's threads have names")
}

fn message_id(text: &str) -> MessageId {
    MessageId::new(text).expect("the demo's messages have ids")
}

/// Numbers that look random and are the same for the same seed (`SplitMix64`).
pub(super) struct Random(pub(super) u64);

impl Random {
    /// A number below a bound.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound.max(1)).unwrap_or(1);
        usize::try_from((mixed ^ (mixed >> 31)) % bound).unwrap_or(0)
    }
}
