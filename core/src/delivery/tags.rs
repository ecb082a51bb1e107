//! Which messages there were, in little memory.

use hashbrown::HashSet;

use crate::Digest;

/// Ids of messages that are done with: 96 bits of each one's SHA-256, enough that two ids of a log
/// never meet, in a fraction of the memory.
///
/// # Examples
///
/// ```
/// use recount_core::delivery::MessageTags;
///
/// let mut finished = MessageTags::default();
/// finished.insert("m-1");
/// assert!(finished.contains("m-1") && !finished.contains("m-2"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageTags(HashSet<[u8; 12]>);

impl MessageTags {
    fn tag(message_id: &str) -> [u8; 12] {
        let digest = Digest::of_bytes(message_id.as_bytes());
        *digest.as_bytes().first_chunk().expect("a digest has 32 bytes")
    }

    /// Whether an id was put in.
    pub fn contains(&self, message_id: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&Self::tag(message_id))
    }

    /// Puts an id in.
    pub fn insert(&mut self, message_id: &str) {
        self.0.insert(Self::tag(message_id));
    }
}
