//! Domain, events and logs of Recount.
//!
//! What an agent platform owes is kept as events. This crate holds what is pure about them: the
//! values, the aggregates with their rules, and the events' one spelling; and, beside it, the logs
//! that keep them behind the trait [`log::EventLog`], and the services that work on them
//! ([`service::Owners`]).

pub mod delivery;
#[doc(hidden)]
pub mod doc;
pub mod log;
pub mod schedule;
pub mod service;

mod diagnostic;
mod digest;
mod event;
mod id;
mod input;
mod instant;
mod invariant;
mod json;
mod merkle;
mod receipt;

pub use diagnostic::{CauseReason, Diagnostic, ErrorDiagnostic, OmittedReason, Scalar};
pub use digest::{Digest, DigestError};
pub use event::{
    DecodeError, DomainEvent, EventBatch, EventDraft, MAX_ROW_BYTES, Metadata, Position,
    RecordedEvent, Revision, Row, RowError, SealError, SealedEvent, StreamHead, StreamName,
    StreamNameError, write_row,
};
pub use id::{
    AdmissionGroup, AdmissionKey, AgentId, EventType, FenceText, IdError, MessageId, Name,
    Principal, ReceiptId, RefusalCode, SettlementId, SubmissionId, ThreadId,
};
pub use input::{
    AdmissionFence, AuthorizationDecision, DefinitionDigests, Envelope, PreparedInput,
    ReplayDigests, SchemaV1,
};
pub use instant::{Instant, InstantError};
pub use invariant::{Illegal, Invariant, Legal, Severity, Unchecked, UnknownInvariant};
pub use json::{CanonicalJson, JsonError, JsonErrorKind, PersistedJson, canonicalize};
pub use merkle::MerkleTree;
pub use receipt::{Failure, Outcome, Receipt, Settlement, SettlementError};
