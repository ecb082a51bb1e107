//! Which streams are in memory.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{StreamAggregate, owner::Owner};

use crate::StreamName;

/// How many idle streams stay in memory, unless it is set: 1 024.
pub const MAX_IDLE_STREAMS: usize = 1_024;

/// The owners of streams: those that are used, and so many idle ones.
pub(super) struct Registry<A: StreamAggregate>(Mutex<Streams<A>>);

struct Streams<A: StreamAggregate> {
    owners: HashMap<StreamName, Slot<A>>,
    /// The idle ones, by when they were used last.
    idle: BTreeMap<u64, StreamName>,
    max_idle: usize,
    /// Counts how often a stream became idle.
    time: u64,
}

struct Slot<A: StreamAggregate> {
    owner: Arc<Owner<A>>,
    users: usize,
    idle_since: u64,
}

/// A stream's owner, which stays in memory for as long as this is held.
pub(super) struct Lease<'a, A: StreamAggregate> {
    registry: &'a Registry<A>,
    pub(super) owner: Arc<Owner<A>>,
}

impl<A: StreamAggregate> Registry<A> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Streams {
            owners: HashMap::new(),
            idle: BTreeMap::new(),
            max_idle: MAX_IDLE_STREAMS,
            time: 0,
        }))
    }

    pub(super) fn set_max_idle(&self, max_idle: usize) {
        let mut streams = self.streams();
        streams.max_idle = max_idle;
        let surplus = streams.surplus();
        drop(streams);
        drop(surplus);
    }

    pub(super) fn lease(&self, key: &A::Key) -> Lease<'_, A> {
        let stream = A::stream(key);
        let mut streams = self.streams();
        let Streams { owners, idle, .. } = &mut *streams;
        let slot = owners.entry(stream).or_insert_with_key(|stream| Slot {
            owner: Arc::new(Owner::new(key.clone(), stream.clone())),
            users: 0,
            idle_since: 0,
        });
        if slot.users == 0 {
            idle.remove(&slot.idle_since);
        }
        slot.users += 1;
        Lease { registry: self, owner: Arc::clone(&slot.owner) }
    }

    fn streams(&self) -> MutexGuard<'_, Streams<A>> {
        // Nothing of the aggregate's runs under this lock, so a panic leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many streams are in memory.
    #[cfg(all(test, feature = "memory"))]
    pub(super) fn count(&self) -> usize {
        self.streams().owners.len()
    }
}

impl<A: StreamAggregate> Streams<A> {
    fn give_back(&mut self, stream: &StreamName) {
        let Some(slot) = self.owners.get_mut(stream) else { return };
        slot.users -= 1;
        if slot.users == 0 {
            self.time += 1;
            slot.idle_since = self.time;
            self.idle.insert(self.time, stream.clone());
        }
    }

    /// Takes out the idle owners that are too many, those first that were used least recently.
    fn surplus(&mut self) -> Vec<Slot<A>> {
        let mut surplus = Vec::new();
        while self.idle.len() > self.max_idle
            && let Some((_, stream)) = self.idle.pop_first()
        {
            surplus.extend(self.owners.remove(&stream));
        }
        surplus
    }
}

impl<A: StreamAggregate> Drop for Lease<'_, A> {
    fn drop(&mut self) {
        let mut streams = self.registry.streams();
        streams.give_back(self.owner.stream());
        let surplus = streams.surplus();
        // Records may be large: they are let go after the lock.
        mem::drop(streams);
        mem::drop(surplus);
    }
}
