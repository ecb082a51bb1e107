//! Where the time of a check goes: its parts over one log in memory, on one core.
//!
//! `cargo bench --bench wire -- [--events N] [--streams N] [--runs N] [--seed N]`

#[path = "generate/mod.rs"]
mod generate;
mod measure;

use std::{
    collections::{BTreeMap, HashMap},
    hint::black_box,
    process::ExitCode,
};

use recount_core::{
    Digest, DomainEvent, Legal, Row, StreamName, ThreadId,
    delivery::{DeliveryEvent, Evolved, Outbox},
    log::{Block, RowSource, jsonl::JsonlRows},
};

use generate::Plan;
use measure::{Options, count, median, number, print_table, timed};

const USAGE: &str = "cargo bench --bench wire -- [--events N] [--streams N] [--runs N] [--seed N]";

fn main() -> ExitCode {
    measure::exit(run())
}

fn run() -> Result<(), String> {
    let options = Options::read(USAGE, &["--events", "--streams", "--runs", "--seed"], &[])?;
    let (events, runs) = if options.is_smoke() { (2_000, 1) } else { (100_000, 7) };
    let events = options.value("--events", events)?;
    let plan = Plan {
        events,
        streams: options.value("--streams", events / 20)?,
        seed: options.value("--seed", 1)?,
        ..Plan::default()
    };
    let runs = options.value("--runs", runs)?.max(1);
    let mut text = Vec::new();
    let (written, took) = timed(|| plan.write(&mut text));
    let written = written.map_err(|error| error.to_string())?;
    println!(
        "{events} events, {:.1} MB, {} bytes each; {} streams, {} messages, {} unfinished, \
         {} lost attempts (D12); made in {:.2} s; medians of {runs} runs\n",
        number(written.bytes) / 1e6,
        written.bytes / events.max(1),
        written.streams,
        written.messages,
        written.unfinished,
        written.lost_attempts,
        took.as_secs_f64(),
    );
    let lines: Vec<_> = text.trim_ascii_end().split(|byte| *byte == b'\n').collect();
    let mut spares = vec![String::new(); lines.len()];
    let log = Log::of(&text, lines, &mut spares);
    log.parts(runs);
    log.types(runs);
    Ok(())
}

/// A log with what earlier parts make of it, so that each part is measured alone.
struct Log<'a> {
    text: &'a [u8],
    lines: Vec<&'a [u8]>,
    rows: Vec<Row<'a>>,
    decoded: Vec<DeliveryEvent>,
    /// The stream of each row, as an index into the owners.
    streams: Vec<usize>,
    owners: Vec<ThreadId>,
}

impl<'a> Log<'a> {
    /// `spares` has an empty text for each line, as reading a row wants one.
    fn of(text: &'a [u8], lines: Vec<&'a [u8]>, spares: &'a mut [String]) -> Self {
        let rows: Vec<_> = lines.iter().zip(spares).map(|(line, it)| row(line, it)).collect();
        let decoded: Vec<_> = rows.iter().map(decode).collect();
        let (mut known, mut owners) = (HashMap::new(), Vec::new());
        let mut streams = Vec::new();
        for (row, event) in rows.iter().zip(&decoded) {
            let stream = *known.entry(row.stream).or_insert(owners.len());
            streams.push(stream);
            if let DeliveryEvent::Prepared(event) = event
                && stream == owners.len()
            {
                owners.push(event.key.owner_thread_id.clone());
            }
        }
        Self { text, lines, rows, decoded, streams, owners }
    }

    /// Each part over all of the log.
    fn parts(&self, runs: usize) {
        let all = count(self.text.len());
        let event_bytes = self.rows.iter().map(|row| count(row.event.len())).sum();
        let data_bytes = self.rows.iter().map(|row| count(row.data.len())).sum();
        let prepared_bytes = self.prepared().map(|(row, _)| count(row.data.len())).sum();
        let name_bytes = self.rows.iter().map(|row| count(row.stream.len())).sum();
        let parts: [(&str, bool, u64, &dyn Fn()); 8] = [
            ("SHA-256 of all in one", false, all, &|| self.whole()),
            ("JsonlRows", true, all, &|| self.blocks()),
            ("Row::read", true, all, &|| self.read()),
            ("Row::digest_of_event", true, event_bytes, &|| self.digest()),
            ("StreamName::parse", true, name_bytes, &|| self.names()),
            ("DomainEvent::decode", true, data_bytes, &|| self.decode()),
            ("Prepared::check_content", true, prepared_bytes, &|| self.content()),
            ("Outbox::legal, evolve, check", true, data_bytes, &|| self.fold()),
        ];
        let mut times = vec![Vec::new(); parts.len()];
        for _ in 0..runs {
            for ((_, _, _, work), times) in parts.iter().zip(&mut times) {
                times.push(timed(work).1.as_secs_f64());
            }
        }
        let medians: Vec<_> = times.into_iter().map(median).collect();
        let counted = parts.iter().zip(&medians).filter(|((_, counts, ..), _)| *counts);
        let sum: f64 = counted.map(|(_, seconds)| seconds).sum();
        let line = |name: &str, seconds: f64, own: Option<u64>, share: Option<f64>| {
            vec![
                name.to_owned(),
                format!("{:.1}", seconds * 1e3),
                format!("{:.0}", seconds * 1e9 / number(count(self.rows.len()))),
                format!("{:.0}", number(all) / 1e6 / seconds),
                own.map_or(String::new(), |own| format!("{:.0}", number(own) / 1e6 / seconds)),
                share.map_or(String::new(), |share| format!("{share:.0} %")),
            ]
        };
        let mut table: Vec<_> = parts
            .iter()
            .zip(medians)
            .map(|((name, counts, own, _), seconds)| {
                line(name, seconds, Some(*own), counts.then_some(100.0 * seconds / sum))
            })
            .collect();
        table.push(line("the parts together", sum, None, Some(100.0)));
        print_table(&["part", "ms", "ns/event", "MB/s of log", "own MB/s", "share"], &table);
    }

    /// Reading and decoding by type of event.
    fn types(&self, runs: usize) {
        let mut by_type: BTreeMap<&str, Vec<(&[u8], &Row<'_>)>> = BTreeMap::new();
        for (line, row) in self.lines.iter().zip(&self.rows) {
            by_type.entry(row.event_type).or_default().push((line, row));
        }
        let total = number(count(self.rows.len()));
        let of_type = |(name, rows): (&str, Vec<(&[u8], &Row<'_>)>)| {
            let events = number(count(rows.len()));
            let line = number(rows.iter().map(|(line, _)| count(line.len())).sum()) / events;
            let data = number(rows.iter().map(|(_, row)| count(row.data.len())).sum()) / events;
            let nanos = |work: &dyn Fn()| {
                1e9 * median((0..runs).map(|_| timed(work).1.as_secs_f64())) / events
            };
            let read = nanos(&|| {
                for (line, _) in &rows {
                    black_box(row(line, &mut String::new()));
                }
            });
            let decode = nanos(&|| rows.iter().for_each(|(_, row)| drop(black_box(decode(row)))));
            vec![
                name.to_owned(),
                format!("{:.1} %", 100.0 * events / total),
                format!("{line:.0}"),
                format!("{read:.0}"),
                format!("{:.0}", 1e3 * line / read),
                format!("{data:.0}"),
                format!("{decode:.0}"),
                format!("{:.0}", 1e3 * data / decode),
            ]
        };
        println!();
        let table: Vec<_> = by_type.into_iter().map(of_type).collect();
        let head =
            ["type", "events", "row: B", "read: ns", "MB/s", "data: B", "decode: ns", "MB/s"];
        print_table(&head, &table);
    }

    fn whole(&self) {
        black_box(Digest::of_bytes(self.text));
    }

    fn blocks(&self) {
        let mut reader = JsonlRows::new(self.text);
        let mut block = Block::default();
        while reader.next(&mut block).expect("memory can be read") {
            block.lines().for_each(|line| {
                black_box(line);
            });
        }
    }

    fn read(&self) {
        for line in &self.lines {
            black_box(row(line, &mut String::new()));
        }
    }

    fn digest(&self) {
        for row in &self.rows {
            assert_eq!(row.digest_of_event(), row.digest);
        }
    }

    fn names(&self) {
        for row in &self.rows {
            black_box(StreamName::parse(row.stream).expect("a stream's name"));
        }
    }

    fn decode(&self) {
        self.rows.iter().for_each(|row| drop(black_box(decode(row))));
    }

    fn prepared(&self) -> impl Iterator<Item = (&Row<'a>, &Box<recount_core::delivery::Prepared>)> {
        self.rows.iter().zip(&self.decoded).filter_map(|(row, event)| match event {
            DeliveryEvent::Prepared(event) => Some((row, event)),
            _ => None,
        })
    }

    fn content(&self) {
        for (_, event) in self.prepared() {
            event.check_content(None).expect("the digests are the content's");
        }
    }

    /// All that depends on the state before an event.
    fn fold(&self) {
        let mut outboxes: Vec<_> = self.owners.iter().cloned().map(Outbox::new).collect();
        for (position, (event, stream)) in self.decoded.iter().zip(&self.streams).enumerate() {
            let outbox = &mut outboxes[*stream];
            assert_eq!(outbox.legal(event, None), Legal::Ok, "position {position}");
            assert_eq!(outbox.evolve(event), Evolved::Applied);
            let id = event.message_id();
            let record = outbox.record(id).expect("it was applied");
            record.check().expect("the record is valid");
            if record.status.is_finished() {
                outbox.forget(id);
            }
        }
    }
}

fn row<'a>(line: &'a [u8], spare: &'a mut String) -> Row<'a> {
    let row = Row::read(line, spare).expect("a generated row is one");
    assert!(row.is_canonical);
    row
}

fn decode(row: &Row<'_>) -> DeliveryEvent {
    match DomainEvent::decode(row.event_type, row.schema_version, row.data) {
        Ok(DomainEvent::Delivery(event)) => event,
        other => panic!("position {}: {other:?}", row.position),
    }
}
