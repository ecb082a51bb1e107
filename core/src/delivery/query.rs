//! What may be asked of an outbox, and of what is due.

use serde::{Deserialize, Serialize};

use super::{DeliveryError, MessageDeliveryRecord, Outbox};
use crate::{MessageId, ThreadId, json::present};

/// The most that a page holds: 4 096 messages.
pub const MAX_PAGE: usize = 4_096;

/// The most that is due at once: 100 messages.
pub const MAX_BATCH: usize = 100;

/// Which messages of an outbox are listed, in the order of their ids.
///
/// # Examples
///
/// ```
/// use recount_core::{ThreadId, delivery::{ListMessages, Outbox, OutboxLimits}};
/// # use recount_core::doc::message;
///
/// let owner_thread_id = ThreadId::new("sender")?;
/// let mut outbox = Outbox::new(owner_thread_id.clone());
/// for id in ["m-2", "m-3", "m-1"] {
///     outbox.evolve(&message(id).decide(&OutboxLimits::default())?.into());
/// }
/// let mut list = ListMessages { owner_thread_id, limit: 2, after: None, pending_only: false };
/// let page = outbox.list(&list)?;
/// let ids = page.items.iter().map(|record| record.key.message_id.as_str());
/// assert!(ids.eq(["m-1", "m-2"]));
///
/// list.after = page.next;
/// let page = outbox.list(&list)?;
/// assert_eq!((page.items.len(), page.next), (1, None));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListMessages {
    /// Whose outbox.
    pub owner_thread_id: ThreadId,
    /// How many messages a page holds, 1 to [`MAX_PAGE`].
    pub limit: usize,
    /// The last id of the page before: the page begins behind it, whether it is still there or not.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub after: Option<MessageId>,
    /// Whether processed and refused messages are left out.
    #[serde(default)]
    pub pending_only: bool,
}

/// Some messages of an outbox, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessagePage {
    /// The messages.
    pub items: Vec<MessageDeliveryRecord>,
    /// What the next page begins behind; none where this is the last.
    pub next: Option<MessageId>,
}

impl ListMessages {
    /// Makes the page of records that come in the order of their ids.
    ///
    /// Only as many are taken as the page needs.
    ///
    /// # Errors
    ///
    /// [`DeliveryError::Limit`] where the limit is out of range.
    pub fn page<'a>(
        &self,
        records: impl IntoIterator<Item = &'a MessageDeliveryRecord>,
    ) -> Result<MessagePage, DeliveryError> {
        check_limit("list", self.limit, MAX_PAGE)?;
        let mut behind = records.into_iter().filter(|record| {
            self.after.as_ref().is_none_or(|after| record.key.message_id > *after)
                && (!self.pending_only || record.uses_capacity())
        });
        let items: Vec<_> = behind.by_ref().take(self.limit).cloned().collect();
        let has_more = behind.next().is_some();
        let last = items.last().filter(|_| has_more);
        let next = last.map(|record| record.key.message_id.clone());
        Ok(MessagePage { items, next })
    }
}

/// Takes all unfinished messages of an outbox, or none.
///
/// # Errors
///
/// [`DeliveryError::Limit`] where the limit is out of range, [`DeliveryError::ReadPending`] where
/// there are more.
pub fn read_pending<'a>(
    unfinished: impl IntoIterator<Item = &'a MessageDeliveryRecord>,
    limit: usize,
) -> Result<Vec<MessageDeliveryRecord>, DeliveryError> {
    check_limit("read-pending", limit, MAX_PAGE)?;
    let mut unfinished = unfinished.into_iter();
    let records = unfinished.by_ref().take(limit).cloned().collect();
    match unfinished.next() {
        Some(_) => Err(DeliveryError::ReadPending { limit }),
        None => Ok(records),
    }
}

impl Outbox {
    /// Lists messages, a page at a time.
    ///
    /// # Errors
    ///
    /// [`DeliveryError::Limit`] where the limit is out of range, [`DeliveryError::OtherOutbox`]
    /// where another outbox is asked for.
    pub fn list(&self, list: &ListMessages) -> Result<MessagePage, DeliveryError> {
        if list.owner_thread_id != *self.owner() {
            let (expected, found) = (self.owner().clone(), list.owner_thread_id.clone());
            return Err(DeliveryError::OtherOutbox { expected, found });
        }
        list.page(self.in_order())
    }

    /// All messages that are neither processed nor refused, in the order of their ids.
    ///
    /// # Errors
    ///
    /// [`DeliveryError::ReadPending`] where there are more than the limit, and
    /// [`DeliveryError::Limit`] where that is not 1 to [`MAX_PAGE`].
    pub fn read_pending(&self, limit: usize) -> Result<Vec<MessageDeliveryRecord>, DeliveryError> {
        read_pending(self.in_order().into_iter().filter(|it| it.uses_capacity()), limit)
    }

    fn in_order(&self) -> Vec<&MessageDeliveryRecord> {
        let mut records: Vec<_> = self.records().collect();
        records.sort_unstable_by(|left, right| left.key.message_id.cmp(&right.key.message_id));
        records
    }
}

/// How many due messages are asked for at once, 1 to [`MAX_BATCH`].
///
/// # Examples
///
/// ```
/// use recount_core::delivery::BatchSize;
///
/// assert_eq!(BatchSize::new(100)?, BatchSize::MAX);
/// assert_eq!(BatchSize::new(0).unwrap_err().to_string(), "due: a limit is 1 to 100, not 0");
/// # Ok::<_, recount_core::delivery::DeliveryError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchSize(usize);

impl BatchSize {
    /// The most.
    pub const MAX: Self = Self(MAX_BATCH);

    /// Takes a number of messages.
    ///
    /// # Errors
    ///
    /// [`DeliveryError::Limit`] where it is out of range.
    pub fn new(size: usize) -> Result<Self, DeliveryError> {
        check_limit("due", size, MAX_BATCH)?;
        Ok(Self(size))
    }

    /// The number.
    pub const fn get(self) -> usize {
        self.0
    }
}

fn check_limit(query: &'static str, limit: usize, max: usize) -> Result<(), DeliveryError> {
    if limit == 0 || limit > max {
        return Err(DeliveryError::Limit { query, limit, max });
    }
    Ok(())
}
