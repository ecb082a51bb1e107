//! The port through which a driver learns where to look.

use futures_util::future::BoxFuture;

use crate::{Instant, delivery::BatchSize, log::ReadError};

/// What is to be looked at, each with when.
pub type Upcoming<K> = Vec<(Instant, K)>;

/// Knows what is due in a log; a view implements it.
///
/// It tells a driver where to look, and decides nothing: a driver that was sent too late is late,
/// one that was sent in vain finds nothing to do. Each question first folds what was appended
/// since the last one, so an answer is about the log as it is.
pub trait DueIndex: Send + Sync {
    /// What is due: a message, say.
    type Key;
    /// Whose work it is.
    type Owner: ?Sized;

    /// Folds what was appended since the last time.
    ///
    /// # Errors
    ///
    /// [`ReadError`] where the log cannot be read; what was read before it is folded.
    fn catch_up(&self) -> BoxFuture<'_, Result<(), ReadError>>;

    /// What is to be looked at by now, of one owner or of all: by when it became due, then by
    /// owner, then by id.
    ///
    /// # Errors
    ///
    /// As those of [`DueIndex::catch_up`].
    fn due<'a>(
        &'a self,
        now: Instant,
        limit: BatchSize,
        owner: Option<&'a Self::Owner>,
    ) -> BoxFuture<'a, Result<Vec<Self::Key>, ReadError>>;

    /// What is to be looked at, due or not, from behind a place on, each with when: by that, then by
    /// owner, then by id.
    ///
    /// # Errors
    ///
    /// As those of [`DueIndex::catch_up`].
    fn upcoming<'a>(
        &'a self,
        after: Option<&'a (Instant, Self::Key)>,
        limit: BatchSize,
    ) -> BoxFuture<'a, Result<Upcoming<Self::Key>, ReadError>>;

    /// When something of one owner, or of any, is to be looked at next; `None` where nothing is.
    ///
    /// # Errors
    ///
    /// As those of [`DueIndex::catch_up`].
    fn next_deadline<'a>(
        &'a self,
        owner: Option<&'a Self::Owner>,
    ) -> BoxFuture<'a, Result<Option<Instant>, ReadError>>;
}
