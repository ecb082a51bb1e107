//! Inputs that are ready for admission, and envelopes, which are such inputs frozen.

use std::{collections::BTreeMap, fmt, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::{
    AdmissionGroup, AdmissionKey, AgentId, Digest, FenceText, Name, PersistedJson, Principal,
    ThreadId,
    json::{
        Cut, Scanner, cut_generally, cut_struct, is_canonical, present, to_canonical, unique_keys,
    },
};

/// The `schemaVersion` of a value that has had only one so far: the number 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SchemaV1;

impl Serialize for SchemaV1 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(1)
    }
}

impl<'de> Deserialize<'de> for SchemaV1 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            1 => Ok(Self),
            other => {
                Err(de::Error::invalid_value(de::Unexpected::Unsigned(other), &"schema version 1"))
            }
        }
    }
}

/// An input with everything that its admission needs.
///
/// Once it is prepared it is an [`Envelope`], which does not change any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreparedInput {
    /// A condition of the destination's that must still hold.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub admission_fence: Option<AdmissionFence>,
    /// Inputs that are admitted together.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub admission_group: Option<AdmissionGroup>,
    /// Under which the destination admits it once.
    pub admission_key: AdmissionKey,
    /// The agent that is to have it.
    pub agent_id: AgentId,
    /// The decision that allowed it.
    pub authorization: AuthorizationDecision,
    /// The definitions it was prepared for.
    pub definitions: DefinitionDigests,
    /// On whose behalf it is submitted.
    pub delivery_principal: Principal,
    /// What the agent gets.
    pub input: PersistedJson,
    /// SHA-256 over the canonical JSON of `input`.
    pub input_digest: Digest,
    /// What a message is, where it is more than an input.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub message_admission: Option<PersistedJson>,
    /// The version of this shape.
    pub schema_version: SchemaV1,
    /// The destination.
    pub thread_id: ThreadId,
    /// What a worker's input is bound to.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub worker_admission: Option<PersistedJson>,
}

impl PreparedInput {
    /// Whether this reports a worker's progress, which has an allowance of its own in an outbox.
    pub fn is_worker_update(&self) -> bool {
        self.message_admission
            .as_ref()
            .is_some_and(|admission| admission.to_value()["_tag"] == "WorkerUpdate")
    }
}

/// The frozen input of a message, with what its canonical JSON tells.
///
/// Two are the same when their digests are. It reads and writes as the input that it holds.
///
/// # Examples
///
/// ```
/// use recount_core::{Digest, Envelope};
/// # let input = recount_core::doc::envelope("admit:1");
///
/// let envelope = Envelope::from(input);
/// let text = serde_json::to_string(&*envelope)?;
/// assert_eq!(envelope.digest(), Digest::of_bytes(recount_core::canonicalize(&text)?.as_bytes()));
/// assert!(envelope.has_input_digest());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Envelope {
    input: PreparedInput,
    digest: Digest,
    /// What `inputDigest` should be.
    input_digest: Digest,
    canonical_bytes: usize,
    is_worker_update: bool,
}

impl Envelope {
    fn of(input: PreparedInput, canonical: &str) -> Self {
        Self {
            digest: Digest::of_bytes(canonical.as_bytes()),
            input_digest: input.input.digest(),
            canonical_bytes: canonical.len(),
            is_worker_update: input.is_worker_update(),
            input,
        }
    }

    /// SHA-256 over the canonical JSON.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// SHA-256 over the canonical JSON of what the agent gets, as it was computed here.
    pub fn computed_input_digest(&self) -> Digest {
        self.input_digest
    }

    /// Whether `inputDigest` is the digest of what the agent gets.
    pub fn has_input_digest(&self) -> bool {
        self.input.input_digest == self.input_digest
    }

    /// How long the canonical JSON is.
    pub fn canonical_bytes(&self) -> usize {
        self.canonical_bytes
    }

    /// Whether this reports a worker's progress, which has an allowance of its own in an outbox.
    pub fn is_worker_update(&self) -> bool {
        self.is_worker_update
    }
}

impl From<PreparedInput> for Envelope {
    fn from(input: PreparedInput) -> Self {
        let canonical = to_canonical(&input);
        Self::of(input, &canonical)
    }
}

impl Deref for Envelope {
    type Target = PreparedInput;

    fn deref(&self) -> &PreparedInput {
        &self.input
    }
}

impl PartialEq for Envelope {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Envelope {}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt(f)
    }
}

impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.input.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let input: PreparedInput = crate::json::read(raw.get())
            .map_err(|error| de::Error::custom(format!("{} {}", error.path, error.message)))?;
        // In a log the text is canonical already, so that nothing is written to be digested.
        if is_canonical(raw.get()) { Ok(Self::of(input, raw.get())) } else { Ok(input.into()) }
    }
}

/// A condition of a destination's, that must still hold when an input is admitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdmissionFence {
    /// What the condition is about.
    pub key: FenceText,
    /// The policy that set it.
    pub policy_id: Name,
    /// The revision that must still be current.
    pub revision: FenceText,
}

/// Which decision of which policy allowed something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizationDecision {
    /// The decision.
    pub decision_id: Name,
    /// The policy.
    pub policy_id: Name,
}

/// Digests of what an input was prepared for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefinitionDigests {
    /// The agent's definition.
    pub agent: Digest,
    /// The model's.
    pub model: Digest,
    /// What a replay of the agent needs to find again.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayDigests>,
    /// The tools'.
    pub tools: Digest,
}

/// Digests that a replay of the agent needs to find again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayDigests {
    /// The agent's definition.
    pub agent: Digest,
    /// How it behaves, where that is known.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub agent_behavior: Option<Digest>,
    /// Each tool by name.
    #[serde(deserialize_with = "unique_keys")]
    pub tools: BTreeMap<String, Digest>,
}

impl Cut for Envelope {
    fn cut(scan: &mut Scanner<'_>) -> Option<Self> {
        let start = scan.position();
        let input = PreparedInput::cut(scan)?;
        Some(Self::of(input, scan.since(start)))
    }
}

impl Cut for SchemaV1 {
    fn cut(scan: &mut Scanner<'_>) -> Option<Self> {
        scan.literal(b"1").map(|()| Self)
    }
}

cut_struct!(PreparedInput {
    "admissionFence" admission_fence optional,
    "admissionGroup" admission_group optional,
    "admissionKey" admission_key,
    "agentId" agent_id,
    "authorization" authorization,
    "definitions" definitions,
    "deliveryPrincipal" delivery_principal,
    "input" input,
    "inputDigest" input_digest,
    "messageAdmission" message_admission optional,
    "schemaVersion" schema_version,
    "threadId" thread_id,
    "workerAdmission" worker_admission optional,
});
cut_struct!(AdmissionFence { "key" key, "policyId" policy_id, "revision" revision });
cut_struct!(AuthorizationDecision { "decisionId" decision_id, "policyId" policy_id });
cut_struct!(DefinitionDigests { "agent" agent, "model" model, "replay" replay optional, "tools" tools });
cut_generally!(ReplayDigests);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_version_other_than_one_is_refused() {
        let error = serde_json::from_str::<SchemaV1>("2").unwrap_err();
        assert_eq!(error.to_string(), "invalid value: integer `2`, expected schema version 1");
    }
}
