//! Who runs a command: what the trail says of it.

use std::path::Path;

use crate::settings::Environment;

/// The user of this process, as the machine knows it. Behind `sudo` also whose session it was, as far as that is believed.
pub(crate) fn user(environment: &Environment) -> String {
    let uid = rustix::process::getuid().as_raw();
    let name = std::fs::read_to_string(Path::new("/etc/passwd")).ok().and_then(|users| name(&users, uid));
    let user = name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"));
    match environment.get("SUDO_USER") {
        Ok(Some(by)) if !by.is_empty() && !by.contains('\0') => format!("{user}, by sudo of {by}"),
        _ => user,
    }
}

/// The name beside a uid in the lines of `/etc/passwd`; users kept elsewhere have none there.
fn name(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_its_number_and_by_whoever_became_it() {
        let users = "root:x:0:0:root:/:/bin/sh\nbroken\nalice:x:1000:1000::/:/bin/sh\n";
        assert_eq!(name(users, 1000).as_deref(), Some("alice"));
        assert_eq!(name(users, 10), None);
        let uid = rustix::process::getuid().as_raw();
        assert!(user(&Environment::default()).contains(&format!("uid {uid}")));
        let by_sudo = user(&Environment::from([("SUDO_USER", "alice")]));
        assert!(by_sudo.ends_with(", by sudo of alice"), "{by_sudo}");
    }
}
