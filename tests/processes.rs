//! Logs that real processes share, are killed over, or have no room for.
//!
//! A child is this test binary again, told by its environment which part it plays.

mod deliveries;
mod example;
mod kills;
mod room;
mod shares;

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
};

use recount::{
    EventBatch, EventDraft, Instant, MessageId, Metadata, RefusalCode, StreamHead, StreamName,
    ThreadId,
    delivery::{
        MessageDeliveryChange as Change, MessageDeliveryCommand, Outbox, OutboxCommand,
        OutboxLimits,
    },
};
use recount_core::{DomainEvent, doc};

/// What tells a child which part it plays, and on which log.
const PART: &str = "RECOUNT_TEST_PART";
const LOG: &str = "RECOUNT_TEST_LOG";

/// This process's part and its log, where it is a child.
pub(crate) fn part() -> Option<(String, String)> {
    Some((env::var(PART).ok()?, env::var(LOG).ok()?))
}

/// This test again, as a child.
pub(crate) fn child(test: &str, part: &str, log: &Path) -> Command {
    child_of(&env::current_exe().unwrap(), test, part, log)
}

/// A test as a child, by the name that its binary has there.
fn child_of(binary: &Path, test: &str, part: &str, log: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env(LOG, log)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a child says, apart from what its test harness prints.
fn said(line: &str) -> Option<&str> {
    line.split_once("> ").map(|(_, said)| said)
}

/// Holds a log to every rule, by the program.
fn assert_verified(log: &Path, events: u64) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_recount"));
    let output = program.args(["verify", "--format", "json"]).arg(log).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains(&format!("\"events\":{events},")), "{told}");
}

fn millis(millis: u64) -> Instant {
    Instant::from_millis(millis).unwrap()
}

/// An outbox that never has to wait for anybody, with the head of its stream.
struct Sender {
    outbox: Outbox,
    head: Option<StreamHead>,
    count: u64,
}

impl Sender {
    fn new(owner: &str) -> Self {
        let outbox = Outbox::new(ThreadId::new(owner).unwrap());
        Self { outbox, head: None, count: 0 }
    }

    /// A message's life of so many events, up to three, as one batch; its id says how many.
    fn next(&mut self, size: usize) -> EventBatch {
        self.count += 1;
        let id = MessageId::new(format!("{}-of-{size}", self.count)).unwrap();
        let change = |version, change| OutboxCommand::Change {
            message_id: id.clone(),
            command: MessageDeliveryCommand {
                expected_version: version,
                now_millis: millis(2_000),
                change,
            },
        };
        let code = RefusalCode::new("unwanted").unwrap();
        let commands = [
            prepare(self.outbox.owner(), &id),
            change(1, Change::Claim),
            change(2, Change::Refuse { code, diagnostic: None }),
        ];
        let drafts: Vec<_> = commands[..size]
            .iter()
            .map(|command| {
                let event = self.outbox.decide(command).unwrap().unwrap();
                self.outbox.evolve(&event);
                EventDraft::of(&DomainEvent::Delivery(event), Metadata::of_actor("test"))
            })
            .collect();
        let stream = StreamName::delivery(self.outbox.owner());
        let batch = EventBatch::seal(stream, self.head, drafts, millis(2_000)).unwrap();
        self.head = Some(batch.head());
        batch
    }
}

/// Prepares a message in an outbox without limits to speak of.
fn prepare(owner: &ThreadId, id: &MessageId) -> OutboxCommand {
    let mut message = doc::message(id);
    message.key.owner_thread_id = owner.clone();
    let limits = OutboxLimits {
        max_pending_per_owner: 1 << 40,
        max_retained_per_owner: 1 << 40,
        ..OutboxLimits::default()
    };
    OutboxCommand::Prepare { message: Box::new(message), limits }
}
