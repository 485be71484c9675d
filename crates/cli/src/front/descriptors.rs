//! The process's limit of open descriptors: each connection takes one or two.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. Returns the limit in force, `None` if there is none.
pub(crate) fn raise_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    let given = limit.current;
    limit.current = limit.maximum;
    // Refused (a container may forbid it), the limit stays what it was.
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => limit.maximum,
        Err(_) => given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_all_that_may_be_had() {
        assert_eq!(raise_limit(), getrlimit(Resource::Nofile).maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, getrlimit(Resource::Nofile).maximum);
    }
}
