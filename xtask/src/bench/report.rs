//! What a benchmark says: `target/bench/results.json` for programs, `target/bench/results.md` (and stdout) for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::gateway::{Course, Target};
use super::load::Measured;
use crate::{Result, workspace};

/// What one benchmark found, for programs and for people.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) json: Value,
    pub(super) markdown: String,
}

/// Writes both files, and the tables to stdout.
pub(super) fn write(outcomes: &[Outcome]) -> Result {
    let json: Vec<_> = outcomes.iter().map(|outcome| &outcome.json).collect();
    let markdown: Vec<_> = outcomes.iter().map(|outcome| outcome.markdown.as_str()).collect();
    let markdown = markdown.join("\n");
    let folder = workspace::target("bench");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("results.json"), serde_json::to_string_pretty(&json)?)?;
    std::fs::write(folder.join("results.md"), &markdown)?;
    print!("{markdown}");
    Ok(())
}

/// One target, measured once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) per_second: f64,
    /// Microseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Microseconds of CPU time of the measured process, per request.
    pub(super) cpu: f64,
}

impl Sample {
    /// Nothing when nothing was measured.
    #[expect(clippy::cast_precision_loss, reason = "counts and microseconds far below 2^52")]
    pub(super) fn new(measured: &Measured, cpu: Duration) -> Option<Self> {
        let requests = measured.requests as f64;
        (measured.requests > 0).then(|| Self {
            per_second: requests / measured.took.as_secs_f64(),
            p50: measured.latency.value_at_quantile(0.5) as f64,
            p99: measured.latency.value_at_quantile(0.99) as f64,
            cpu: cpu.as_secs_f64() * 1e6 / requests,
        })
    }
}

/// All samples: by number of clients, by target, one per round.
#[derive(Debug)]
pub(super) struct Report<'a> {
    course: &'a Course,
    samples: BTreeMap<usize, Vec<(Target, Vec<Sample>)>>,
}

/// A target at a number of clients: medians over the rounds.
struct Row {
    target: Target,
    clients: usize,
    median: Sample,
    /// Requests per second, as a share of the plain proxy's in the same round.
    of_plain: f64,
}

impl<'a> Report<'a> {
    pub(super) fn new(course: &'a Course) -> Self {
        Self { course, samples: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, target: Target, clients: usize, sample: Sample) {
        let targets = self.samples.entry(clients).or_insert_with(|| Target::ALL.map(|it| (it, Vec::new())).to_vec());
        for (_, samples) in targets.iter_mut().filter(|(other, _)| *other == target) {
            samples.push(sample);
        }
    }

    /// What it says.
    pub(super) fn outcome(&self) -> Outcome {
        Outcome { json: self.json(), markdown: self.markdown() }
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        self.samples.iter().flat_map(|(clients, targets)| {
            let plain = targets.iter().find(|(target, _)| *target == Target::Plain).map_or(&[][..], |(_, it)| it);
            targets.iter().map(move |(target, samples)| {
                let of = |field: fn(&Sample) -> f64| median(samples.iter().map(field));
                let (per_second, p50, p99) = (of(|it| it.per_second), of(|it| it.p50), of(|it| it.p99));
                let ratios = samples.iter().zip(plain).map(|(sample, plain)| sample.per_second / plain.per_second);
                let median_sample = Sample { per_second, p50, p99, cpu: of(|it| it.cpu) };
                Row { target: *target, clients: *clients, median: median_sample, of_plain: median(ratios) }
            })
        })
    }

    fn markdown(&self) -> String {
        let mut text = self.introduction();
        text.push_str("\n| clients | target | requests/s | of the plain proxy | p50 ms | p99 ms | CPU µs/request |\n");
        text.push_str("|---:|---|---:|---:|---:|---:|---:|\n");
        for Row { target, clients, median: Sample { per_second, p50, p99, cpu }, of_plain } in self.rows() {
            let (name, share, p50, p99) = (target.name(), of_plain * 100.0, p50 / 1e3, p99 / 1e3);
            let _ = writeln!(
                text,
                "| {clients} | {name} | {per_second:.0} | {share:.0} % | {p50:.2} | {p99:.2} | {cpu:.1} |"
            );
        }
        text
    }

    fn introduction(&self) -> String {
        let Course { rounds, span, .. } = self.course;
        let warning = if cfg!(debug_assertions) { " **A debug build: these numbers mean nothing.**" } else { "" };
        format!(
            "`{}`: POST /orders with a JSON body, {} bytes of JSON back, by closed-loop HTTP/1.1 clients in one \
             process; SQLite store on disk; {} CPUs shared by load, proxy and upstream. Medians of {rounds} rounds of {} s \
             per cell, interleaved; shares are of the plain hyper proxy's requests/s in the same round; CPU is that of \
             the process that was asked.{warning}\n",
            command_line(),
            super::plain::ORDER.len(),
            cpus(),
            span.as_secs_f64(),
        )
    }

    fn json(&self) -> Value {
        let rows =
            self.rows().map(|Row { target, clients, median: Sample { per_second, p50, p99, cpu }, of_plain }| {
                let samples =
                    self.samples[&clients].iter().find(|(other, _)| *other == target).map(|(_, samples)| samples);
                let rates: Vec<_> = samples.into_iter().flatten().map(|sample| sample.per_second).collect();
                json!({
                    "target": target.name(), "clients": clients, "requests_per_second": per_second,
                    "share_of_plain_proxy": of_plain, "p50_us": p50, "p99_us": p99, "cpu_us_per_request": cpu,
                    "requests_per_second_by_round": rates,
                })
            });
        json!({
            "benchmark": "gateway", "command": command_line(), "release_build": !cfg!(debug_assertions),
            "compared_with": Target::Plain.name(), "rounds": self.course.rounds,
            "seconds_per_cell": self.course.span.as_secs_f64(), "cpus": cpus(), "results": rows.collect::<Vec<_>>(),
        })
    }
}

pub(super) fn command_line() -> String {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    format!("cargo xtask {}", arguments.join(" "))
}

pub(super) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The middle value; of an even number of them, the upper of the two in the middle. Not a number when there are none.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::super::gateway::QUICK;
    use super::*;

    fn sample(per_second: f64) -> Sample {
        Sample { per_second, p50: 1000.0, p99: 2000.0, cpu: 10.0 }
    }

    #[test]
    fn a_share_is_taken_within_each_round_before_the_median() {
        let mut report = Report::new(&QUICK);
        // The machine halves its speed after the first round; the share stays what it is.
        for speed in [1.0, 0.5, 0.5] {
            for target in Target::ALL {
                let own = if target == Target::First { 60.0 } else { 100.0 };
                report.add(target, 32, sample(own * speed));
            }
        }
        let rows: Vec<_> = report.rows().collect();
        let first = rows.iter().find(|row| row.target == Target::First).unwrap();
        assert!((first.of_plain - 0.6).abs() < 1e-9);
        assert!((first.median.per_second - 30.0).abs() < 1e-9);
        assert_eq!(rows.len(), Target::ALL.len());
    }

    #[test]
    fn the_table_and_the_file_name_every_target() {
        let mut report = Report::new(&QUICK);
        for target in Target::ALL {
            report.add(target, 1, sample(100.0));
        }
        let (table, file) = (report.markdown(), report.json());
        for (number, target) in Target::ALL.into_iter().enumerate() {
            assert!(table.contains(target.name()));
            assert_eq!(file["results"][number]["target"], target.name());
        }
        assert!(table.contains("| 1 | plain proxy | 100 | 100 % | 1.00 | 2.00 | 10.0 |"), "{table}");
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!(median(std::iter::empty()).is_nan());
    }
}
