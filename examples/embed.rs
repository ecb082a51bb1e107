//! A host with two agents that talk to one another, and may be killed at any time.
//!
//! `cargo run --example embed -- DIR`: the planner asks, the researcher answers, twenty times. Stop it
//! with Ctrl-C, or kill it at any moment, and start it again: it carries on. Nothing is said twice
//! and nothing is lost. `recount verify DIR/agents.db` proves it at any time.

use std::{error::Error, fs, io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use recount::{
    Diagnostic, Digest, Envelope, IdError, MessageId, Metadata, PersistedJson, PreparedInput,
    Receipt, Recount, SystemClock, ThreadId,
    delivery::{MessageDeliveryKey, MessageDeliveryPolicy},
    log::sqlite::SqliteLog,
    service::{Admission, AdmissionError, Clock as _, NewMessage, SubmissionStatus},
};
use serde_json::{Value, json};

const QUESTIONS: u64 = 20;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or("embed-example".to_owned()));
    fs::create_dir_all(folder.join("inputs"))?;
    let log = Arc::new(SqliteLog::open(folder.join("agents.db"))?);
    let inboxes = Arc::new(Inboxes { folder: folder.join("inputs") });
    let recount = Recount::builder(log, inboxes.clone())
        .metadata(Metadata::of_actor("embed"))
        .checkpoint(folder.join("deliveries.checkpoint"))
        .build()
        .await?;
    // A repeat changes nothing, so a host need not know whether it has begun before.
    send(&recount, "planner", "researcher", "question", 1).await?;
    let agents = Box::pin(async {
        tokio::try_join!(
            agent(&recount, &inboxes, "planner"),
            agent(&recount, &inboxes, "researcher"),
        )
    });
    let stop = async {
        tokio::select! {
            said = agents => match said {
                Ok(_) => println!("all has been said"),
                Err(error) => eprintln!("{error}"),
            },
            _ = tokio::signal::ctrl_c() => println!("stopped: start it again, and it carries on"),
        }
    };
    recount.run(stop).await;
    Ok(())
}

/// Works on what is in an agent's inbox, and on what comes, until all has been said.
async fn agent(recount: &Recount, inboxes: &Inboxes, thread: &str) -> Result<(), Failure> {
    loop {
        for (key, number) in inboxes.open(thread)? {
            tokio::time::sleep(Duration::from_millis(200)).await;
            match thread {
                "researcher" => send(recount, thread, "planner", "answer", number).await?,
                _ if number == QUESTIONS => {}
                _ => send(recount, thread, "researcher", "question", number + 1).await?,
            }
            // Done, when what follows from it is in the log. Killed before this, it is done again,
            // and what it sends is a repeat.
            inboxes.close(&key)?;
            recount.outboxes().settled(&key).await?;
        }
        let last = recount.outboxes().get(&key_of("researcher", "answer", QUESTIONS)?).await?;
        let owed = recount.outboxes().read_pending(&ThreadId::new(thread)?, 100).await?;
        if owed.is_empty() && last.is_some_and(|last| last.status.is_finished()) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Puts a message into its sender's outbox.
async fn send(
    recount: &Recount,
    from: &str,
    to: &str,
    what: &str,
    number: u64,
) -> Result<(), Failure> {
    let key = key_of(from, what, number)?;
    let input = PersistedJson::from_value(&json!({"text": what, "number": number}))?;
    let definition = Digest::of_bytes(b"what agents are made of");
    let envelope: PreparedInput = serde_json::from_value(json!({
        "schemaVersion": 1, "threadId": to, "agentId": to, "deliveryPrincipal": from,
        "definitions": {"agent": definition, "model": definition, "tools": definition},
        "input": input, "inputDigest": input.digest(), "admissionKey": key.to_string(),
        "authorization": {"policyId": "example", "decisionId": "allowed"},
    }))?;
    let policy = MessageDeliveryPolicy::default();
    let message =
        NewMessage { key, envelope, lifetime_millis: 86_400_000, policy, predecessor: None };
    let record = recount.outboxes().send(message).await?;
    if record.version == 1 {
        println!("{from} to {to}: {what} {number}");
    }
    Ok(())
}

fn key_of(from: &str, what: &str, number: u64) -> Result<MessageDeliveryKey, IdError> {
    Ok(MessageDeliveryKey {
        owner_thread_id: ThreadId::new(from)?,
        message_id: MessageId::new(format!("{what}-{number}"))?,
    })
}

/// The agents' inboxes: a file for each input, and one more when it is done.
struct Inboxes {
    folder: PathBuf,
}

impl Inboxes {
    fn file(&self, admission_key: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", admission_key.replace('/', "~")))
    }

    /// The inputs of a thread that are not done: the message's key, and the number in it.
    fn open(&self, thread: &str) -> io::Result<Vec<(MessageDeliveryKey, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "input") {
                let input: Value = serde_json::from_slice(&fs::read(&path)?)?;
                let key = input["admissionKey"].as_str().and_then(|key| key.parse().ok());
                let number = input["input"]["number"].as_u64();
                if let (true, Some(key), Some(number)) = (input["threadId"] == thread, key, number)
                    && !self.is_closed(&key)
                {
                    found.push((key, number));
                }
            }
        }
        Ok(found)
    }

    /// Writes a file once: it is there in one step, or not at all.
    fn write(&self, admission_key: &str, kind: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.file(admission_key, kind);
        if !path.exists() {
            let unfinished = path.with_extension("unfinished");
            fs::write(&unfinished, bytes)?;
            fs::rename(unfinished, path)?;
        }
        Ok(())
    }

    fn close(&self, key: &MessageDeliveryKey) -> io::Result<()> {
        let now = SystemClock.now().to_string();
        self.write(&key.to_string(), "done", now.as_bytes())
    }

    fn is_closed(&self, key: &MessageDeliveryKey) -> bool {
        self.file(&key.to_string(), "done").exists()
    }

    /// Takes an input once under its key, and answers as the first time.
    fn admit(&self, envelope: &Envelope) -> io::Result<Receipt> {
        let key = &envelope.admission_key;
        self.write(key, "input", &serde_json::to_vec(&**envelope)?)?;
        Ok(serde_json::from_value(json!({
            "receiptId": key, "submissionId": key, "threadId": envelope.thread_id,
            "queueSequence": 0,
        }))?)
    }

    fn status(&self, receipt: &Receipt) -> io::Result<SubmissionStatus> {
        let path = self.file(&receipt.receipt_id, "done");
        if !path.exists() {
            return Ok(SubmissionStatus::Pending);
        }
        let settlement = serde_json::from_value(json!({
            "receiptId": receipt.receipt_id, "submissionId": receipt.submission_id,
            "settlementId": receipt.receipt_id, "outcome": "completed",
            "settledAt": fs::read_to_string(path)?,
        }))?;
        Ok(SubmissionStatus::Settled(Box::new(settlement)))
    }
}

impl Admission for Inboxes {
    fn submit<'a>(
        &'a self,
        envelope: &'a Envelope,
    ) -> BoxFuture<'a, Result<Receipt, AdmissionError>> {
        let answer = self.admit(envelope).map_err(|error| away(&error));
        Box::pin(async { answer })
    }

    fn submission_status<'a>(
        &'a self,
        receipt: &'a Receipt,
    ) -> Option<BoxFuture<'a, Result<SubmissionStatus, AdmissionError>>> {
        let answer = self.status(receipt).map_err(|error| away(&error));
        Some(Box::pin(async { answer }))
    }
}

/// The inboxes cannot be read or written now: the driver tries again.
fn away(error: &io::Error) -> AdmissionError {
    AdmissionError::StorageAway { diagnostic: Some(Box::new(Diagnostic::of_error(error))) }
}
