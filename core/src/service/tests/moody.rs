//! An aggregate that cannot do all that an outbox can.

use futures_util::future::join;

use super::*;

/// An outbox that does not know claims, and gives up where a message is to be refused.
struct Moody(Outbox);

impl StreamAggregate for Moody {
    type Key = ThreadId;
    type Command = OutboxCommand;
    type Event = DeliveryEvent;
    type Error = DeliveryError;
    type Undo = ();

    fn empty(key: &ThreadId) -> Self {
        Self(Outbox::new(key.clone()))
    }

    fn stream(key: &ThreadId) -> StreamName {
        StreamName::delivery(key)
    }

    fn own(event: DomainEvent) -> Option<DeliveryEvent> {
        let DomainEvent::Delivery(event) = event;
        (!matches!(event, DeliveryEvent::Claimed(_))).then_some(event)
    }

    fn decide(&self, command: &OutboxCommand) -> Result<Option<DeliveryEvent>, DeliveryError> {
        if let OutboxCommand::Change { command, .. } = command {
            panic!("{} is too much", command.change.tag());
        }
        self.0.decide(command)
    }

    fn before(&self, _: &DeliveryEvent) {}

    fn evolve(&mut self, event: &DeliveryEvent) {
        self.0.evolve(event);
    }

    fn undo(&mut self, (): ()) {}
}

#[tokio::test]
async fn an_event_of_another_aggregate_is_named() {
    let log = Scripted::new([]);
    let outboxes = owners(&log);
    for submission in [prepare("m-0"), claim("m-0", 1_000)] {
        committed(outboxes.submit(&sender(), submission).await);
    }
    let moody = Owners::<Moody>::new(Arc::clone(&log) as Arc<dyn EventLog>);
    let error = moody.submit(&sender(), prepare("m-1")).await.unwrap_err();
    let message = "revision 1 of delivery-sender, at position 1, is a delivery.claimed";
    assert_eq!(error.to_string(), message);
}

#[tokio::test]
async fn an_aggregate_that_panics_takes_its_group_with_it_and_no_more() {
    let log = Scripted::new([Step::Slow(5)]);
    let owners = Owners::<Moody>::new(Arc::clone(&log) as Arc<dyn EventLog>);
    let submit = |submission| {
        let owners = owners.clone();
        tokio::spawn(async move { owners.submit(&sender(), submission).await })
    };
    let tasks = [prepare("m-0"), prepare("m-1"), claim("m-0", 1_000), prepare("m-2")].map(submit);
    let [zero, one, two, three] = tasks;
    committed(zero.await.unwrap());
    // Whoever was first in the group worked for it.
    assert!(one.await.unwrap_err().is_panic());
    let (two, three) = join(two, three).await;
    let error = two.unwrap().unwrap_err();
    assert!(matches!(error, OwnerError::GivenUp), "{error:?}");
    committed(three.unwrap());
    committed(submit(prepare("m-1")).await.unwrap());
    let (_, outbox) = folded(&log.inner()).await;
    assert_eq!(owners.read(&sender(), |moody| moody.0.clone()).await.unwrap(), outbox);
}
