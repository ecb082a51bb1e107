//! Values that the examples of the documentation begin with.

use crate::{PreparedInput, delivery::PrepareMessage};

/// A message from `sender` to `receiver`, prepared at 1 000 with an hour to go.
///
/// # Panics
///
/// Where the id is not a message id.
pub fn message(message_id: &str) -> PrepareMessage {
    PrepareMessage {
        key: serde_json::from_value(serde_json::json!({
            "ownerThreadId": "sender", "messageId": message_id,
        }))
        .expect("a message id"),
        envelope: envelope(&format!("admit:{message_id}")),
        created_at_millis: crate::Instant::from_millis(1_000).expect("an instant"),
        deadline_at_millis: crate::Instant::from_millis(3_601_000).expect("an instant"),
        policy: crate::delivery::MessageDeliveryPolicy::default(),
        predecessor: None,
    }
}

/// An envelope for `receiver` under an admission key.
///
/// # Panics
///
/// Where the key is not an admission key.
pub fn envelope(admission_key: &str) -> PreparedInput {
    let digest = "0".repeat(64);
    serde_json::from_value(serde_json::json!({
        "schemaVersion": 1,
        "threadId": "receiver",
        "deliveryPrincipal": "principal",
        "agentId": "agent",
        "definitions": {"agent": digest, "model": digest, "tools": digest},
        "input": "hello",
        "inputDigest": crate::Digest::of_bytes(b"\"hello\""),
        "admissionKey": admission_key,
        "authorization": {"policyId": "policy", "decisionId": "decision"},
    }))
    .expect("an admission key")
}
