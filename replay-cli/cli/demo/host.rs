//! A host that delivers the demo's messages, and what people do about them.

use std::sync::Arc;

use futures_executor::block_on;
use futures_util::TryStreamExt;
use recount_core::{
    Metadata,
    delivery::{MessageDeliveryKey, MessageDeliveryStatus as Status, ParkReason},
    log::{Direction, EventLog},
    service::{Clock, DeliveryFailure, DueIndex, OutboxService},
};

use super::{
    script::{Planned, Step, plan},
    world::World,
};
use crate::{Recount, cli::error::CliError};

pub(super) struct Host {
    log: Arc<dyn EventLog>,
    world: World,
    recount: Recount,
    keys: Vec<MessageDeliveryKey>,
}

impl Host {
    pub(super) fn new(log: Arc<dyn EventLog>, seed: u64) -> Result<Self, CliError> {
        let world = World::new(seed);
        let recount = start(&log, &world)?;
        Ok(Self { log, world, recount, keys: Vec::new() })
    }

    pub(super) fn prepare_all(&mut self) -> Result<(), CliError> {
        let outboxes = self.by("planner of the demo");
        let now = self.world.now();
        for Planned { mut message, steps } in self.world.draw(|random| plan(random, now)) {
            self.world.wait(20);
            let lifetime =
                message.deadline_at_millis.as_millis() - message.created_at_millis.as_millis();
            message.created_at_millis = self.world.now();
            message.deadline_at_millis = message.created_at_millis.saturating_add(lifetime);
            self.keys.push(message.key.clone());
            self.world.set_script(message.key.clone(), steps);
            block_on(outboxes.prepare(message))?;
        }
        self.keys.sort();
        Ok(())
    }

    /// Delivers whatever is due, then has people do what they do, until nothing moves.
    pub(super) fn work_until_nothing_moves(&mut self) -> Result<(), CliError> {
        self.park_by_hand()?;
        loop {
            if let Some(due) = block_on(self.recount.deliveries().next_deadline(None))
                .map_err(DeliveryFailure::Due)?
            {
                self.world.wait_until(due);
                self.deliver()?;
                self.tell()?;
            } else if !self.recover_one()? {
                return Ok(());
            }
        }
    }

    fn deliver(&mut self) -> Result<(), CliError> {
        match block_on(self.recount.driver().run_due(None)) {
            // It died over an answer: another one starts, and knows what the log says.
            Err(DeliveryFailure::Failpoint(_)) => self.recount = start(&self.log, &self.world)?,
            // Of which nothing is recorded: the attempt's lease ends by itself.
            Ok(_) | Err(DeliveryFailure::HostStorage { .. }) => {}
            Err(failure) => return Err(failure.into()),
        }
        Ok(())
    }

    /// Destinations say that they are done.
    fn tell(&self) -> Result<(), CliError> {
        for key in self.world.that_wait_for(Step::Told) {
            if self.status(&key)? == Some(Status::Accepted) {
                self.world.step(&key);
                self.world.wait(400);
                block_on(self.recount.outboxes().settled(&key))?;
            }
        }
        Ok(())
    }

    fn park_by_hand(&self) -> Result<(), CliError> {
        for key in self.world.that_wait_for(Step::Park) {
            self.world.step(&key);
            block_on(self.by("operator").park(&key, 1, ParkReason::StatusUnavailable))?;
        }
        Ok(())
    }

    /// Recovers a parked message, where somebody is to; whether there was one.
    fn recover_one(&self) -> Result<bool, CliError> {
        for key in self.world.that_wait_for(Step::Recover) {
            let record = block_on(self.recount.outboxes().get(&key))?;
            if let Some(record) = record.filter(|record| record.status == Status::Parked) {
                self.world.step(&key);
                self.world.wait(60_000);
                let deadline = self.world.now().saturating_add(3_600_000);
                block_on(self.by("operator").recover(&key, record.version, deadline))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A message that waits for a person, the first in the order of the keys.
    pub(super) fn parked(&self) -> Result<Option<MessageDeliveryKey>, CliError> {
        for key in &self.keys {
            if self.status(key)? == Some(Status::Parked) {
                return Ok(Some(key.clone()));
            }
        }
        Ok(None)
    }

    /// How many events of each type the log has, in the order of their first.
    pub(super) fn tally(&self) -> Result<Vec<(String, u64)>, CliError> {
        let events = self.log.read_all(None, Direction::Forward, usize::MAX);
        let tally = events.try_fold(Vec::<(String, u64)>::new(), async |mut tally, recorded| {
            let name = recorded.event.event_type();
            match tally.iter_mut().find(|(counted, _)| **counted == **name) {
                Some((_, number)) => *number += 1,
                None => tally.push((name.to_string(), 1)),
            }
            Ok(tally)
        });
        Ok(block_on(tally).map_err(DeliveryFailure::Due)?)
    }

    fn status(&self, key: &MessageDeliveryKey) -> Result<Option<Status>, CliError> {
        let record = block_on(self.recount.outboxes().get(key))?;
        Ok(record.map(|record| record.status))
    }

    /// The outboxes, as somebody in particular works with them.
    fn by(&self, actor: &str) -> OutboxService {
        self.recount.outboxes().clone().with_metadata(Metadata::of_actor(actor))
    }
}

/// A process that knows nothing yet, with one attempt at a time, so that a seed is one history.
fn start(log: &Arc<dyn EventLog>, world: &World) -> Result<Recount, CliError> {
    let world = Arc::new(world.clone());
    let recount = Recount::builder(log.clone(), world.clone())
        .clock(world.clone())
        .failpoint(world)
        .metadata(Metadata::of_actor("driver"))
        .concurrency(1);
    block_on(recount.build()).map_err(|source| CliError::DemoLog { source: source.into() })
}
