//! What a running gateway makes of settings that are read again: which of them it takes over, and which need a restart.

use std::path::Path;

use super::place::{Place, Remark};
use super::table::{Level, SETTINGS};
use super::{Loaded, Purpose, Refused, Sources, Stated, accept, checks, load};
use crate::config::Config;

/// The settings at the top that a reload takes over, beside all of `[defaults]` and the routes. Every other one needs a restart:
/// what was built of it at start can't be changed under running operations.
const TAKEN_OVER: [&str; 21] = [
    "upstream",
    "upstream_http",
    "upstream_idle",
    "upstream_tls.ca",
    "upstream_tls.cert",
    "upstream_tls.key",
    "upstream_tls.server_name",
    "profile",
    "cache_for",
    "drain",
    "drain_delay",
    "max_inflight",
    "max_waiters_all",
    "admin.token",
    "admin.read_token",
    "jwt.jwks",
    "jwt.issuer",
    "jwt.audience",
    "jwt.leeway",
    "sweep.every",
    "sweep.batch",
];

/// Settings that were read again, fit for the gateway that runs.
#[derive(Clone, Debug)]
pub(crate) struct Reloaded {
    /// What it goes on with. What needs a restart is as it was.
    pub(crate) loaded: Loaded,
    /// The settings that changed and need a restart.
    pub(crate) kept: Vec<&'static str>,
}

/// Reads all sources again. Refused as at start, if there is nothing in the file any more, or if what was read can't be
/// served beside what needs a restart; then nothing of it counts. Reads the file, blocking; safe to repeat.
pub(crate) fn reload(sources: &Sources, running: &Loaded) -> Result<Reloaded, Refused> {
    let read = load(sources)?;
    if read.blank && !running.blank {
        // Right by itself, it would guard other paths by other scopes: retries would run again.
        let place = Place::WholeFile(
            sources.file.as_deref().map(Path::display).map_or_else(String::new, |path| path.to_string()).into(),
        );
        let what = "nothing is in it any more: it is being written, or it is a pipe that was read to its end";
        return Err(Refused(vec![Remark::new(&place, "", what)]));
    }
    let mut stated = read.stated.clone();
    let kept = keep(&mut stated, &running.stated);
    if kept.is_empty() {
        return Ok(Reloaded { loaded: read, kept });
    }
    let config = Config::build(&stated).map_err(|remark| Refused(vec![remark]))?;
    let findings = match sources.purpose {
        Purpose::Serve => checks::check(&config, &stated, &sources.environment),
        Purpose::Operate => checks::Findings::default(),
    };
    accept(findings.refused)?;
    let warnings = of_the_sources(read.warnings, findings.warned);
    Ok(Reloaded { loaded: Loaded { config, warnings, stated, blank: read.blank }, kept })
}

/// Puts back what needs a restart; returns the names of what had changed.
fn keep(stated: &mut Stated, running: &Stated) -> Vec<&'static str> {
    let mut kept = Vec::new();
    for setting in SETTINGS.iter().filter(|setting| setting.level == Level::Top) {
        let name = setting.name;
        let (read, runs) = (stated.top.get(name), running.top.get(name));
        if TAKEN_OVER.contains(&name) || read.map(|read| &read.value) == runs.map(|runs| &runs.value) {
            continue;
        }
        kept.push(name);
        match runs {
            Some(runs) => stated.top.insert(name, runs.clone()),
            None => stated.top.remove(name),
        };
    }
    kept
}

/// The warnings about what was read, and those that only come from what was kept.
fn of_the_sources(mut read: Vec<Remark>, kept: Vec<Remark>) -> Vec<Remark> {
    read.extend(kept);
    read.sort();
    read.dedup();
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Flag;

    /// What becomes of a file of the text `before` when it says `after`, beside a flag.
    fn reloaded(before: &str, after: &str) -> Result<Reloaded, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let flag = Flag { name: "--namespace", setting: "namespace", text: "flagged".to_owned() };
        let sources = Sources { file: Some(file.path().to_owned()), flags: vec![flag], ..Sources::default() };
        std::fs::write(file.path(), before).expect("written");
        let running = load(&sources).expect(before);
        std::fs::write(file.path(), after).expect("written");
        let name = file.path().display().to_string();
        reload(&sources, &running).map_err(|refused| refused.to_string().replace(&name, "oncekey.toml"))
    }

    #[test]
    fn what_needs_a_restart_is_named_and_kept_and_the_rest_is_taken_over() {
        let after = "listen = \"127.0.0.1:2\"\nupstream = \"http://other\"\nprofile = \"ietf\"\ndrain = \"5m\"\n\
                     max_inflight = 7\nmax_buffered = \"1MiB\"\nadmin.token = \"env:T\"\n[defaults]\nwait = \"3s\"\n[[route]]\npath = \"/a\"\n";
        let Reloaded { loaded, kept } = reloaded("listen = \"127.0.0.1:1\"\n", after).expect("right");
        assert_eq!(kept, ["listen", "max_buffered"]);
        let config = loaded.config;
        assert_eq!((config.listen.port(), config.limits.buffered), (1, 256 << 20));
        assert!(config.admin.token.is_some());
        assert_eq!(config.upstream.url.to_string(), "http://other");
        assert_eq!((config.drain.limit.as_secs(), config.limits.inflight), (300, 7));
        let route = &config.routes[0].route;
        assert_eq!((route.policy.route.as_str(), route.policy.timing.wait.as_secs()), ("/a", 3));
        assert_eq!(route.own_answers.style.profile.name(), "ietf");
    }

    #[test]
    fn what_is_said_otherwise_and_means_the_same_has_not_changed() {
        let kept = reloaded("lease = \"60s\"\n", "\nlease = \"1m\"\nnamespace = \"beaten-by-the-flag\"\n")
            .expect("right")
            .kept;
        assert!(kept.is_empty(), "{kept:?}");
    }

    #[test]
    fn every_setting_that_is_taken_over_is_one() {
        for name in TAKEN_OVER {
            assert!(SETTINGS.iter().any(|setting| setting.level == Level::Top && setting.name == name), "{name}");
        }
    }

    #[test]
    fn a_setting_that_is_left_out_is_built_in_again() {
        let Reloaded { loaded, kept } =
            reloaded("drain = \"5m\"\nlease = \"1m\"\n", "# all built in\n").expect("right");
        assert_eq!((loaded.config.drain.limit.as_secs(), loaded.config.store.lease.as_secs()), (70, 60));
        assert_eq!(kept, ["lease"]);
    }

    #[test]
    fn a_wrong_file_is_refused_whole() {
        let refused = reloaded("", "drain = \"5m\"\n[defaults]\nwait = 3\n").expect_err("wrong");
        assert!(refused.starts_with("oncekey.toml:3:8: defaults.wait: 3 needs a unit"), "{refused}");
        assert!(reloaded("", "not toml").expect_err("wrong").contains("not TOML"));
    }

    /// Cut by a writer that isn't done, or a pipe: `--config <(decrypt oncekey.toml)`.
    #[test]
    fn a_file_with_nothing_in_it_any_more_is_refused() {
        let refused = reloaded("[defaults]\nscope = [\"static:us\"]\n", " \n").expect_err("nothing");
        assert!(refused.starts_with("oncekey.toml: nothing is in it any more"), "{refused}");
        reloaded("", "").expect("as it was");
        reloaded("", "drain = \"5m\"\n").expect("more than it was");
    }

    #[test]
    fn what_can_not_be_served_beside_what_is_kept_is_refused() {
        // Right by itself: the gateway would move away from that address. It doesn't, until it is restarted.
        let after = "listen = \"127.0.0.1:4321\"\nupstream = \"http://127.0.0.1:8080\"\n";
        let refused = reloaded("", after).expect_err("it would call itself");
        assert_eq!(
            refused,
            "oncekey.toml:2:12: upstream: it is the gateway itself (`listen`), which would call itself for ever"
        );
    }
}
