//! Each feature of the facade builds alone: nobody has all of them on, as the workspace does.

use serde_json::Value;

use crate::Result;
use crate::workspace::{self, cargo};

/// Checks the facade without any feature, and with each one alone.
pub(super) fn check() -> Result {
    let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    for feature in std::iter::once(String::new()).chain(features_of_the_facade(&metadata)) {
        let mut command = cargo();
        command.args(["check", "--package", "oncekey", "--no-default-features", "--features", &feature]);
        workspace::run(&mut command)?;
    }
    Ok(())
}

fn features_of_the_facade(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let facade = packages.into_iter().find(|package| package["name"] == "oncekey");
    let features = facade.and_then(|facade| facade["features"].as_object()).into_iter().flatten();
    features.map(|(name, _)| name.clone()).filter(|name| name != "default").collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_feature_of_the_facade_is_found() {
        let other = json!({ "name": "oncekey-cli", "features": { "fault-points": [] } });
        let facade = json!({ "name": "oncekey", "features": { "default": ["tower"], "tower": [], "sqlite": [] } });
        let mut features = features_of_the_facade(&json!({ "packages": [other, facade] }));
        features.sort_unstable();
        assert_eq!(features, ["sqlite", "tower"]);
    }
}
