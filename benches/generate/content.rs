//! What the messages of a generated log carry.

use recount_core::{
    CauseReason, Diagnostic, Digest, ErrorDiagnostic, Instant, MessageId, PersistedJson,
    PreparedInput, Receipt, Scalar, Settlement, ThreadId, delivery::RetryReason,
};
use serde_json::{Value, json};

use super::random::Random;

const WORDS: [&str; 24] = [
    "the",
    "ledger",
    "was",
    "closed",
    "before",
    "noon",
    "please",
    "look",
    "at",
    "invoice",
    "again",
    "with",
    "agent",
    "42",
    "résumé",
    "Zürich",
    "\"quoted\"",
    "line\nbreak",
    "7.5%",
    "tool",
    "answer",
    "später",
    "完了",
    "ok",
];

/// The thread that owns an outbox; some names need percent-encoding in their stream's name.
pub(super) fn owner(number: u64, random: &mut Random) -> ThreadId {
    let low = random.next() & 0xffff_ffff;
    let text = match number % 8 {
        0 => format!("team {}/ops/{number}", low % 50),
        1 => format!("büro:{number}"),
        _ => format!("thread-{low:08x}{number:06x}"),
    };
    ThreadId::new(text).expect("a short text")
}

pub(super) fn message_id(number: u64, random: &mut Random) -> MessageId {
    let low = random.next() & 0xffff_ffff;
    MessageId::new(format!("msg-{low:08x}{number:08x}")).expect("a short text")
}

/// An envelope under an admission key of its own.
pub(super) fn envelope(id: &MessageId, is_update: bool, random: &mut Random) -> PreparedInput {
    let input = PersistedJson::from_value(&input(random)).expect("a small value");
    let definition = |name: &str, random: &mut Random| {
        Digest::of_bytes(format!("{name}{}", random.below(40)).as_bytes())
    };
    let mut envelope = json!({
        "admissionKey": format!("admit:{id}"),
        "agentId": format!("agent-{}", random.below(200)),
        "authorization": {
            "decisionId": format!("decision-{:012x}", random.next() >> 16),
            "policyId": random.pick(&["default", "interactive", "batch"]),
        },
        "definitions": {
            "agent": definition("agent", random),
            "model": definition("model", random),
            "tools": definition("tools", random),
        },
        "deliveryPrincipal": format!("user:{}", random.below(3_000)),
        "inputDigest": input.digest(),
        "input": input,
        "schemaVersion": 1,
        "threadId": format!("thread-{:06x}", random.below(20_000)),
    });
    if is_update {
        envelope["messageAdmission"] = json!({
            "_tag": "WorkerUpdate", "sequence": random.below(500), "workerId": format!("worker-{}", random.below(900)),
        });
    }
    if random.in_thousand(30) {
        envelope["admissionFence"] = json!({
            "key": "workspace", "policyId": "default", "revision": random.below(90).to_string(),
        });
    }
    serde_json::from_value(envelope).expect("an envelope")
}

/// From a few bytes to some KB.
fn input(random: &mut Random) -> Value {
    match random.below(100) {
        0..15 => json!(text(random, 2)),
        15..60 => json!({"role": "user", "text": text(random, 14)}),
        60..85 => json!({
            "attachments": [],
            "priority": random.below(5),
            "role": "user",
            "score": 0.125 * f64::from(u32::try_from(random.below(4_000)).expect("below 4000")),
            "text": text(random, 40),
        }),
        85..97 => {
            let calls = (0..random.between(1, 4)).map(|call| {
                json!({
                    "arguments": {"limit": random.below(1_000), "query": text(random, 6), "strict": call == 0},
                    "name": random.pick(&["search", "read_file", "send"]),
                    "ok": true,
                    "result": null,
                })
            });
            json!({"calls": calls.collect::<Vec<_>>(), "role": "tool", "text": text(random, 12)})
        }
        _ => json!({"role": "system", "text": text(random, 600)}),
    }
}

fn text(random: &mut Random, most_words: u64) -> String {
    let words = random.between(1, most_words);
    let words: Vec<_> = (0..words).map(|_| random.pick(&WORDS)).collect();
    words.join(" ")
}

pub(super) fn receipt(thread_id: &ThreadId, random: &mut Random) -> Receipt {
    let number = random.next() >> 16;
    let receipt = json!({
        "queueSequence": number % 1_000_000,
        "receiptId": format!("receipt-{number:012x}"),
        "submissionId": format!("submission-{number:012x}"),
        "threadId": thread_id,
    });
    serde_json::from_value(receipt).expect("a receipt")
}

pub(super) fn settlement(receipt: &Receipt, now: Instant, random: &mut Random) -> Settlement {
    let mut settlement = json!({
        "outcome": "completed",
        "receiptId": receipt.receipt_id,
        "settledAt": now.to_rfc3339(),
        "settlementId": format!("settlement-{:012x}", random.next() >> 16),
        "submissionId": receipt.submission_id,
    });
    match random.below(100) {
        0..4 => {
            settlement["outcome"] = json!("failed");
            settlement["failure"] = json!({
                "context": {"run": format!("run-{}", random.below(100_000))},
                "diagnostic": diagnostic(random),
                "errorTag": "ToolFailed",
                "message": "a tool failed",
            });
        }
        4..6 => settlement["outcome"] = json!("aborted"),
        6..80 => {
            settlement["usageSummary"] = json!({
                "inputTokens": random.below(90_000), "outputTokens": random.below(4_000),
            });
        }
        _ => {}
    }
    serde_json::from_value(settlement).expect("a settlement")
}

pub(super) fn diagnostic(random: &mut Random) -> Diagnostic {
    let error = Diagnostic::Error(Box::new(ErrorDiagnostic {
        code: Some(Scalar::Text("ECONNRESET".to_owned())),
        message: Some(format!("the peer {} closed it", random.below(250))),
        name: Some("TransportError".to_owned()),
        ..ErrorDiagnostic::default()
    }));
    if random.in_thousand(800) {
        return error;
    }
    Diagnostic::Cause { reasons: vec![CauseReason::Fail { error }], truncated: None }
}

pub(super) fn retry_reason(random: &mut Random) -> RetryReason {
    use RetryReason::{Ambiguous, Capacity, HostClosed, Storage, Timeout, Transport};
    random.pick(&[Transport, Transport, Timeout, Capacity, Storage, HostClosed, Ambiguous])
}
