//! Whether every rule was kept: one pass, in order, over a log.

mod chain;
mod deliveries;
mod finding;
mod rules;

pub(crate) use chain::{Chain, StreamIndex, StreamState};
pub(crate) use deliveries::outbox;
pub use finding::{Coverage, ExpectError, Expected, Finding, Report};
pub use rules::{Rule, Rules, UnknownRule};

use std::io;

use hashbrown::HashMap;
use recount_core::{
    Digest, Illegal, MerkleTree, Position, Severity,
    delivery::OutboxLimits,
    log::{Place, RowSource},
};

use crate::{
    examine::{Examined, ExaminedRow, Examiner, Unreadable},
    scan::{Content, scan},
};
use chain::Broken;

/// How a log is verified.
///
/// # Examples
///
/// ```
/// use recount_core::log::jsonl::JsonlRows;
/// use recount_projections::{Rules, VerifyOptions, verify};
///
/// let mut options = VerifyOptions::default();
/// assert_eq!((options.rules, options.jobs), (Rules::ALL, 1));
/// options.expected = "1:0000000000000000000000000000000000000000000000000000000000000000".parse().ok();
/// let report = verify(JsonlRows::new(&b""[..]), &options, |_| Ok(()))?;
/// assert_eq!(report.mismatch.as_deref(), Some("expected 1 events, found 0"));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// The rules to hold it to.
    pub rules: Rules,
    /// Threads that examine rows; the fold has one more where there are several.
    pub jobs: usize,
    /// Limits of every outbox, in place of those that were recorded (D10).
    pub limits: Option<OutboxLimits>,
    /// What an earlier report printed.
    pub expected: Option<Expected>,
    /// Whether events of an unknown type or version are skipped and counted, rather than a
    /// violation of L6.
    pub skip_unknown: bool,
}

impl Default for VerifyOptions {
    /// Every rule, one job, the recorded limits.
    fn default() -> Self {
        Self { rules: Rules::ALL, jobs: 1, limits: None, expected: None, skip_unknown: false }
    }
}

/// Verifies a log, and reports every finding as it is found.
///
/// Memory follows unfinished messages: a finished one costs about 30 bytes, a stream some
/// hundreds.
///
/// # Errors
///
/// Those of the source and of `report`. Damage is no error but a finding.
///
/// # Examples
///
/// ```
/// use recount_core::log::jsonl::JsonlRows;
/// use recount_projections::{VerifyOptions, verify};
///
/// let mut findings = Vec::new();
/// let text = &b"this is not a row\n"[..];
/// let report = verify(JsonlRows::new(text), &VerifyOptions::default(), |finding| {
///     findings.push(finding);
///     Ok(())
/// })?;
/// assert_eq!(report.coverage.unreadable, 1);
/// assert_eq!(
///     findings[0].why,
///     "not JSON: expected true at $ (byte 0)",
/// );
/// # Ok::<_, std::io::Error>(())
/// ```
pub fn verify(
    source: impl RowSource + Send,
    options: &VerifyOptions,
    report: impl FnMut(Finding) -> io::Result<()>,
) -> io::Result<Report> {
    let examiner = Examiner {
        limits: options.limits.as_ref(),
        with_leaves: true,
        ..Examiner::of(options.rules)
    };
    let mut verifier = Verifier::new(options, report);
    scan(
        source,
        options.jobs,
        |line| examiner.examine(line),
        |line| {
            verifier.chain.next_line();
            match &line.content {
                Content::Examined(row) => verifier.line(row, line.offset),
                Content::Oversized { length } => {
                    verifier.unreadable(&Unreadable::oversized(*length), line.offset)
                }
            }
        },
    )?;
    Ok(verifier.finish())
}

/// The fold.
struct Verifier<'a, F> {
    options: &'a VerifyOptions,
    report: F,
    chain: Chain,
    tree: MerkleTree,
    log_id: Option<Digest>,
    last_position: Option<Position>,
    coverage: Coverage,
    violations: u64,
    warnings: u64,
    /// What each destination was asked to admit under each key (D11).
    admissions: HashMap<[u8; 8], [u8; 4]>,
}

impl<'a, F: FnMut(Finding) -> io::Result<()>> Verifier<'a, F> {
    fn new(options: &'a VerifyOptions, report: F) -> Self {
        Self {
            options,
            report,
            chain: Chain::default(),
            tree: MerkleTree::default(),
            log_id: None,
            last_position: None,
            coverage: Coverage::default(),
            violations: 0,
            warnings: 0,
            admissions: HashMap::new(),
        }
    }

    fn line(&mut self, examined: &Examined, offset: Option<u64>) -> io::Result<()> {
        match examined {
            Ok(row) => self.row(row, offset),
            Err(line) => self.unreadable(line, offset),
        }
    }

    fn row(&mut self, row: &ExaminedRow, offset: Option<u64>) -> io::Result<()> {
        self.coverage.events += 1;
        self.log_id.get_or_insert(row.stated);
        self.last_position = self.last_position.max(Some(row.position));
        row.leaf.into_iter().for_each(|leaf| self.tree.push_leaf(leaf));
        let (stream, links) = self.chain.check(row);
        let mut broken = links.broken.into_iter().filter(|it| self.options.rules.holds(it.0));
        if let Some((rule, mut why)) = broken.next() {
            let is_error = rule.severity() == Severity::Error;
            for (also, more) in broken.filter(|it| it.0.severity() == Severity::Error) {
                why += &format!(" (also {also}: {more})");
            }
            let finding = finding(self.chain.place(row, offset), (rule, why));
            if is_error {
                return self.broken_row(stream, row, finding, links.is_repeat);
            }
            self.found(finding)?;
        }
        self.event(stream, row, offset)
    }

    /// A row whose event is not applied.
    fn broken_row(
        &mut self,
        stream: StreamIndex,
        row: &ExaminedRow,
        mut finding: Finding,
        is_repeat: bool,
    ) -> io::Result<()> {
        let message_id = match &row.event {
            Some(Ok(event)) => Some(deliveries::message_id(event).to_string()),
            Some(Err(undecodable)) => undecodable.message_id.clone(),
            None => None,
        };
        if let (Some(id), false) = (&message_id, is_repeat) {
            finding.before = self.set_aside(stream, id);
        }
        finding.message_id = message_id;
        self.found(finding)
    }

    fn unreadable(&mut self, line: &Unreadable, offset: Option<u64>) -> io::Result<()> {
        self.coverage.unreadable += 1;
        let place = self.chain.place_of(line, offset);
        let why = line.to_string();
        self.found(Finding {
            invariant: None,
            place,
            message_id: None,
            why,
            before: None,
            after: None,
        })
    }

    fn found(&mut self, finding: Finding) -> io::Result<()> {
        match (finding.invariant, finding.severity()) {
            (None, _) => {}
            (_, Severity::Error) => self.violations += 1,
            (_, Severity::Warning) => self.warnings += 1,
        }
        (self.report)(finding)
    }

    fn finish(mut self) -> Report {
        self.coverage.streams = self.chain.streams().len() as u64;
        let root = (self.coverage.unreadable == 0).then(|| self.tree.root());
        let events = self.coverage.events;
        let mismatch = self.options.expected.and_then(|expected| {
            let found = root.map(|root| Expected { events, root });
            (found != Some(expected)).then(|| match found {
                Some(found) if found.events != expected.events => {
                    format!("expected {} events, found {}", expected.events, found.events)
                }
                Some(found) => format!("expected root {}, found {}", expected.root, found.root),
                None => "the root cannot be compared: a row could not be read".to_owned(),
            })
        });
        Report {
            rules: self.options.rules,
            coverage: self.coverage,
            violations: self.violations,
            warnings: self.warnings,
            last_position: self.last_position.map(Position::get),
            root,
            log_id: self.log_id,
            mismatch,
        }
    }
}

fn finding(place: Place, (rule, why): Broken) -> Finding {
    Finding { invariant: Some(rule), place, message_id: None, why, before: None, after: None }
}

fn illegal(place: Place, illegal: Illegal) -> Finding {
    finding(place, (illegal.invariant, illegal.why))
}
