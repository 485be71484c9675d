//! "Did you mean": the known name that is closest to an unknown one.

/// `; did you mean …?`, or nothing if no known name is close.
pub(crate) fn suggest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    closest(written, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// The known name that `written` is most likely a slip of. Short names allow one slip, longer ones two.
pub(crate) fn closest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips = |name: &str| strsim::osa_distance(&fold(written), &fold(name));
    let near = known.into_iter().map(|name| (slips(name), name));
    let allowed = if written.len() <= 5 { 1 } else { 2 };
    near.filter(|(slips, _)| *slips <= allowed).min_by_key(|(slips, _)| *slips).map(|(_, name)| name)
}

/// Hyphens and capitals are no slips of their own.
fn fold(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_apart_from_another_name() {
        let known = ["listen", "lease", "upstream_idle"];
        assert_eq!(closest("listn", known), Some("listen"));
        assert_eq!(closest("upstream-idle", known), Some("upstream_idle"));
        assert_eq!(closest("Lease", known), Some("lease"));
        assert_eq!(closest("colour", known), None);
    }
}
