//! Commands and what became of them, until their callers are told. Nothing here waits.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot;

use super::{Committed, OwnerError, StreamAggregate, Submission, known::Known};
use crate::{
    DomainEvent, EventBatch, EventDraft, Instant, Metadata, Position, Revision, SealError,
    SealedEvent, StreamHead, StreamName, log::AppendError,
};

/// How many commands are decided together at most.
pub const MAX_GROUP_COMMANDS: usize = 256;

/// How many bytes of data and metadata the events of a group have at most, where it has several.
pub const MAX_GROUP_BYTES: usize = 1 << 20;

/// What a caller is told.
pub(super) type Answer<A> = Result<
    Option<Committed<<A as StreamAggregate>::Event>>,
    OwnerError<<A as StreamAggregate>::Error>,
>;

/// A command whose caller waits.
pub(super) struct Pending<A: StreamAggregate> {
    pub(super) submission: Submission<A::Command>,
    pub(super) reply: oneshot::Sender<Answer<A>>,
    /// Whether it was decided before, and counts even when its caller has gone.
    pub(super) was_decided: bool,
}

/// What lies before whoever works on a stream.
pub(super) struct Desk<A: StreamAggregate> {
    /// What is known of the stream; nothing where it was never read, or while a group is in flight.
    pub(super) known: Option<Known<A>>,
    /// What was handed to the log.
    pub(super) flight: Option<Flight<A>>,
    /// Commands that are to be decided before those in the queue, in order.
    pub(super) taken: VecDeque<Pending<A>>,
    /// How many of them the next group has at most.
    most: usize,
    /// The conflict that the taken commands come back from.
    conflict: Option<AppendError>,
}

/// A group that was handed to the log: what must not be lost when its caller goes away.
pub(super) struct Flight<A: StreamAggregate> {
    /// The stream with the group's events applied, at the head before them.
    known: Known<A>,
    pub(super) batch: EventBatch,
    group: Group<A>,
    /// How often the batch was handed over.
    pub(super) calls: usize,
}

/// Commands that were decided one behind the other.
struct Group<A: StreamAggregate> {
    decided: Vec<(Pending<A>, Decision<A>)>,
    undo: Vec<A::Undo>,
}

type Decision<A> =
    Result<Option<<A as StreamAggregate>::Event>, OwnerError<<A as StreamAggregate>::Error>>;

type Drafted<A> = Result<
    Option<(<A as StreamAggregate>::Event, EventDraft)>,
    OwnerError<<A as StreamAggregate>::Error>,
>;

impl<A: StreamAggregate> Desk<A> {
    pub(super) fn new() -> Self {
        Self {
            known: None,
            flight: None,
            taken: VecDeque::new(),
            most: MAX_GROUP_COMMANDS,
            conflict: None,
        }
    }

    /// Decides the taken commands, or as many as go into one batch, which is then in flight.
    ///
    /// Where they have no event, no append will tell whether the log is where it is thought to be;
    /// so they are answered only if it was read since they were taken (`is_fresh`), and are
    /// otherwise decided again when it was.
    pub(super) fn decide(&mut self, stream: &StreamName, is_fresh: bool) {
        // Taken out, so that it is folded anew should the aggregate panic.
        let Some(mut known) = self.known.take() else { return };
        if let Some(error) = self.conflict.take_if(|error| is_baseless(error, known.head)) {
            self.known = Some(known);
            return self.refuse_taken(appending(error));
        }
        self.conflict = None;
        let mut group = Group { decided: Vec::new(), undo: Vec::new() };
        let (drafts, recorded_at) = self.fill(&mut group, &mut known);
        if drafts.is_empty() {
            if is_fresh || group.decided.is_empty() {
                group.tell(std::iter::empty());
            } else {
                known.is_behind = true;
                group.put_back(&mut self.taken);
            }
            self.known = Some(known);
            return;
        }
        match EventBatch::seal(stream.clone(), known.head, drafts, recorded_at) {
            Ok(batch) => self.flight = Some(Flight { known, batch, group, calls: 0 }),
            Err(error) => {
                group.take_back(&mut known);
                group.refuse(|| error.into());
                self.known = Some(known);
            }
        }
    }

    /// Fills a group from what is taken, and applies its events.
    fn fill(&mut self, group: &mut Group<A>, known: &mut Known<A>) -> (Vec<EventDraft>, Instant) {
        let most = std::mem::replace(&mut self.most, MAX_GROUP_COMMANDS);
        let (mut drafts, mut recorded_at, mut bytes) = (Vec::new(), known.recorded_at, 0);
        while group.decided.len() < most
            && let Some(mut pending) = self.taken.pop_front()
        {
            if !pending.was_decided && pending.reply.is_closed() {
                continue;
            }
            pending.was_decided = true;
            let decision = match pending.decide(&known.aggregate) {
                Ok(Some((event, draft))) => {
                    bytes += length(&draft);
                    if bytes > MAX_GROUP_BYTES && !drafts.is_empty() {
                        self.taken.push_front(pending);
                        break;
                    }
                    group.undo.push(known.aggregate.before(&event));
                    known.aggregate.evolve(&event);
                    recorded_at = recorded_at.max(pending.submission.now);
                    drafts.push(draft);
                    Ok(Some(event))
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            group.decided.push((pending, decision));
        }
        (drafts, recorded_at)
    }

    /// The group is in the log.
    pub(super) fn landed(&mut self, flight: Flight<A>, first_position: Position) {
        let Flight { mut known, batch, group, .. } = flight;
        known.head = Some(batch.head());
        known.recorded_at =
            batch.events().last().map_or(known.recorded_at, SealedEvent::recorded_at);
        self.known = Some(known);
        let positions = std::iter::successors(Some(first_position), |it| Some(it.next()));
        group.tell(batch.events().iter().map(SealedEvent::head).zip(positions));
    }

    /// It is not known whether the group is in the log: its callers are told so, and it stays.
    pub(super) fn left_open(&mut self, mut flight: Flight<A>, error: &Arc<AppendError>) {
        let group = Group { decided: std::mem::take(&mut flight.group.decided), undo: Vec::new() };
        self.flight = Some(flight);
        group.refuse(|| OwnerError::Append(Arc::clone(error)));
    }

    /// The group is not in the log and never will be.
    pub(super) fn failed(&mut self, flight: Flight<A>, error: AppendError) {
        let Flight { mut known, batch, mut group, .. } = flight;
        group.take_back(&mut known);
        match error {
            AppendError::Conflict { .. } => {
                known.is_behind = true;
                self.conflict = Some(error);
                group.put_back(&mut self.taken);
            }
            AppendError::TooLarge { revision, .. } => match group.at_fault(&batch, revision) {
                Some((0, at)) => {
                    let (pending, _) = group.decided.remove(at);
                    group.put_back(&mut self.taken);
                    pending.tell(Err(OwnerError::Append(Arc::new(error))));
                }
                // What stands before it goes first, since it was decided behind that.
                Some((_, at)) => {
                    self.most = at;
                    group.put_back(&mut self.taken);
                }
                None => group.refuse(appending(error)),
            },
            error => group.refuse(appending(error)),
        }
        self.known = Some(known);
    }

    /// Tells everyone whose command is taken that it was not decided.
    pub(super) fn refuse_taken(&mut self, error: impl Fn() -> OwnerError<A::Error>) {
        self.conflict = None;
        for pending in self.taken.drain(..) {
            pending.tell(Err(error()));
        }
    }
}

impl<A: StreamAggregate> Group<A> {
    /// Takes the group's events back, the last first.
    fn take_back(&mut self, known: &mut Known<A>) {
        while let Some(undo) = self.undo.pop() {
            known.aggregate.undo(undo);
        }
    }

    /// Puts the commands back where they came from.
    fn put_back(self, taken: &mut VecDeque<Pending<A>>) {
        for (pending, _) in self.decided.into_iter().rev() {
            taken.push_front(pending);
        }
    }

    /// The event at a revision: its index in the batch, and that of its command in the group.
    fn at_fault(&self, batch: &EventBatch, revision: Revision) -> Option<(usize, usize)> {
        let index = batch.events().iter().position(|event| event.revision() == revision)?;
        let with_event = |(_, decision): &(_, Decision<A>)| matches!(decision, Ok(Some(_)));
        let mut commands = (0..self.decided.len()).filter(|at| with_event(&self.decided[*at]));
        Some((index, commands.nth(index)?))
    }

    /// Tells everyone what was decided; each event has its place.
    fn tell(self, places: impl IntoIterator<Item = (StreamHead, Position)>) {
        let mut places = places.into_iter();
        for (pending, decision) in self.decided {
            pending.tell(decision.map(|event| {
                let (event, (head, position)) = (event?, places.next()?);
                Some(Committed { event, position, head })
            }));
        }
    }

    /// Tells everyone the same.
    fn refuse(self, error: impl Fn() -> OwnerError<A::Error>) {
        for (pending, _) in self.decided {
            pending.tell(Err(error()));
        }
    }
}

impl<A: StreamAggregate> Pending<A> {
    /// Decides, and drafts the event, so that it can be sealed with those of others.
    fn decide(&self, aggregate: &A) -> Drafted<A> {
        let Submission { command, metadata, now } = &self.submission;
        let Some(event) = aggregate.decide(command).map_err(OwnerError::Decide)? else {
            return Ok(None);
        };
        // Sealing would refuse the whole group for it.
        if !metadata.is_valid() {
            return Err(SealError::Custom.into());
        }
        if *now > Instant::MAX_RFC3339 {
            return Err(SealError::RecordedAt { at: *now }.into());
        }
        let of_domain: DomainEvent = event.clone().into();
        Ok(Some((event, EventDraft::of(&of_domain, metadata.clone()))))
    }

    /// Answers the caller, who may have gone.
    fn tell(self, answer: Answer<A>) {
        drop(self.reply.send(answer));
    }
}

/// The error of an append, for each of a group.
fn appending<E>(error: AppendError) -> impl Fn() -> OwnerError<E> {
    let error = Arc::new(error);
    move || OwnerError::Append(Arc::clone(&error))
}

/// How much an event takes of a group's bytes.
fn length(draft: &EventDraft) -> usize {
    let Metadata { actor, causation_id, correlation_id, custom } = &draft.metadata;
    let texts = [actor, causation_id, correlation_id].into_iter().flatten().map(String::len);
    let custom = custom.as_ref().map_or(0, |custom| custom.as_str().len());
    draft.data.as_str().len() + texts.sum::<usize>() + custom
}

/// Whether the log contradicts itself: it refused a head, and still shows it.
fn is_baseless(conflict: &AppendError, head: Option<StreamHead>) -> bool {
    matches!(conflict, AppendError::Conflict { expected, .. } if *expected == head)
}
