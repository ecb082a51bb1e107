#![doc = include_str!("../README.md")]

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod embed;

pub use embed::{BuildError, Recount, RecountBuilder, SystemClock};

pub use recount_core::{
    AdmissionFence, AdmissionGroup, AdmissionKey, AgentId, AuthorizationDecision, CanonicalJson,
    CauseReason, DecodeError, DefinitionDigests, Diagnostic, Digest, DigestError, DomainEvent,
    Envelope, ErrorDiagnostic, EventBatch, EventDraft, EventType, Failure, FenceText, IdError,
    Illegal, Instant, InstantError, Invariant, JsonError, JsonErrorKind, Legal, MAX_ROW_BYTES,
    MerkleTree, MessageId, Metadata, Name, OmittedReason, Outcome, PersistedJson, Position,
    PreparedInput, Principal, Receipt, ReceiptId, RecordedEvent, RefusalCode, ReplayDigests,
    Revision, Row, RowError, Scalar, SchemaV1, SealError, SealedEvent, Settlement, SettlementError,
    SettlementId, Severity, StreamHead, StreamName, StreamNameError, SubmissionId, ThreadId,
    Unchecked, UnknownInvariant, canonicalize, delivery, log, schedule, service, write_row,
};
pub use recount_projections::{
    Answer, Attempt, Coverage, DeliveryView, ExpectError, Expected, Explanation, FieldChange,
    Finding, Named, Question, Rebuilt, ReplayError, ReplayOptions, ReplaySummary, Report, Resumed,
    Rule, Rules, SaveError, Saved, SetAside, Spread, Stats, StatsOptions, Timeline, TimelineEntry,
    TimelineOptions, UnknownRule, Until, UntilError, Unusable, VerifyOptions, ViewError, replay,
    stats, timeline, verify,
};
