//! The trail of what operators did, as the memory store keeps it.

use std::collections::VecDeque;

use oncekey_core::Timestamp;

use crate::{AUDIT_AGE, AUDIT_LINES, AuditFilter, AuditLine, AuditPage, Cursor};

/// The lines from the oldest to the newest. Memory is shorter than a disk, so their number is bounded at once.
#[derive(Default)]
pub(super) struct Trail {
    lines: VecDeque<AuditLine>,
    /// The number of the oldest line.
    first: u64,
}

impl Trail {
    pub(super) fn add(&mut self, line: AuditLine) {
        self.lines.push_back(line);
        while self.lines.len() as u64 > AUDIT_LINES {
            self.drop_oldest();
        }
    }

    /// Drops what is too old at `now`.
    pub(super) fn shorten(&mut self, now: Timestamp) {
        while self.lines.front().is_some_and(|line| line.at.after(AUDIT_AGE) <= now) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if self.lines.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// The newest lines that match, those before number `before`.
    pub(super) fn page(&self, filter: &AuditFilter, before: u64, limit: usize) -> AuditPage {
        let mut page = AuditPage { lines: Vec::new(), next: None };
        let mut last = None;
        let end = self.first + self.lines.len() as u64;
        let newest_first = (self.first..end).rev().zip(self.lines.iter().rev());
        for (number, line) in newest_first.filter(|(number, line)| *number < before && filter.matches(line)) {
            if page.lines.len() == limit {
                page.next = last.map(|number: u64| Cursor(number.to_string()));
                break;
            }
            page.lines.push(line.clone());
            last = Some(number);
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Operator};

    #[test]
    fn the_oldest_line_goes_when_there_are_too_many() {
        let operator = Operator { who: "local".into(), via: "api".into(), from: None, reason: None, call: "c".into() };
        let mut trail = Trail::default();
        for deleted in 0..=AUDIT_LINES {
            let change = Change::Swept { deleted, lapsed: 0 };
            trail.add(AuditLine { at: Timestamp::from_micros(0), operator: operator.clone(), change });
        }
        let all = trail.page(&AuditFilter::default(), u64::MAX, usize::MAX);
        assert_eq!(all.lines.len() as u64, AUDIT_LINES);
        assert_eq!(all.lines.last().map(|line| &line.change), Some(&Change::Swept { deleted: 1, lapsed: 0 }));
        let part = trail.page(&AuditFilter::default(), 2, 10);
        assert_eq!(part.lines.len(), 1, "numbers go on when lines go: {part:?}");
    }
}
