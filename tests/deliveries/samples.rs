//! Stored samples: what was once written is read for ever.

use std::{collections::BTreeSet, fs, path::Path};

use recount_core::{DecodeError, DomainEvent, delivery::DeliveryEvent as Event};

use crate::support::stored;

/// Every type of event that ever shipped.
const TYPES: [&str; 11] = [
    "delivery.prepared",
    "delivery.claimed",
    "delivery.accepted",
    "delivery.processed",
    "delivery.observed",
    "delivery.refused",
    "delivery.retried",
    "delivery.parked",
    "delivery.recovered",
    "delivery.deferred",
    "delivery.notified",
];

/// The place in [`TYPES`]: a new event compiles when it has one, and then needs its sample.
fn place(event: &Event) -> usize {
    match event {
        Event::Prepared(_) => 0,
        Event::Claimed(_) => 1,
        Event::Accepted(_) => 2,
        Event::Processed(_) => 3,
        Event::Observed(_) => 4,
        Event::Refused(_) => 5,
        Event::Retried(_) => 6,
        Event::Parked(_) => 7,
        Event::Recovered(_) => 8,
        Event::Deferred(_) => 9,
        Event::Notified(_) => 10,
    }
}

fn newest_version(event_type: &str) -> Result<u32, DecodeError> {
    match DomainEvent::decode(event_type, u32::MAX, "{}") {
        Err(DecodeError::UnknownVersion { newest, .. }) => Ok(newest),
        Err(error) => Err(error),
        Ok(event) => panic!("{event:?}"),
    }
}

#[test]
fn every_version_of_every_type_that_shipped_has_a_sample_that_reads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("core/samples");
    let mut expected = BTreeSet::new();
    for event_type in TYPES {
        let newest = newest_version(event_type).unwrap();
        for version in 1..=newest {
            let name = format!("{event_type}.v{version}.json");
            let text = fs::read_to_string(folder.join(&name)).expect(&name);
            let data = text.strip_suffix('\n').expect(&name);
            let event = match DomainEvent::decode(event_type, version, data) {
                Ok(DomainEvent::Delivery(event)) => event,
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!((event.event_type(), TYPES[place(&event)]), (event_type, event_type));
            assert_eq!(stored(&event), event, "{name}");
            if version == newest {
                assert_eq!(event.to_data().as_str(), data, "{name}");
            }
            expected.insert(name);
        }
    }
    let samples = fs::read_dir(&folder).unwrap();
    let names = samples.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.collect::<BTreeSet<_>>(), expected, "a sample of what nobody reads");
}

#[test]
fn a_type_that_nobody_knows_is_named() {
    for event_type in ["delivery.prepare", "delivery", "", "job.created", "Delivery.prepared"] {
        let error = DecodeError::UnknownType { event_type: event_type.to_owned() };
        assert_eq!(newest_version(event_type), Err(error.clone()));
        assert_eq!(DomainEvent::decode(event_type, 1, "{}"), Err(error));
    }
}
