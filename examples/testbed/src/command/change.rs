//! `rollout begin`: begins a change, which edits fields of the manifest at the pace of a policy.

use control_plane::model::{AssetId, Filter, rollout::RollOut};
use serde_json::Value;

use super::tell::Signed;
use crate::control::{ChangeRequest, Word};

/// Begins a change: fields of the manifest are edited for one asset after the other, at the pace of a policy.
#[derive(Debug, Clone, clap::Args)]
pub struct Begin {
    /// Name of the change, which no change of other content had before. `rollout/` and the name is its key.
    name: String,
    /// Id of the policy asset that says how slowly.
    #[arg(long)]
    policy: AssetId,
    /// A field of the entry that each asset is made from, and its value as JSON: `work_ms=3`, `'version="2"'`. A value
    /// that is not JSON is text.
    #[arg(long, required = true, value_name = "FIELD=VALUE", value_parser = field)]
    set: Vec<(String, Value)>,
    /// The assets whose ids begin with this, such as `job/`. Default: all assets.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    on: String,
    /// A change with this name is live: give its fields these values now, without waiting for its end.
    #[arg(long)]
    hand_over: bool,
    /// Bake in no cluster together with another change.
    #[arg(long)]
    alone_while_baking: bool,
    #[command(flatten)]
    signed: Signed,
}

fn field(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("give a field, `=` and a value, such as `work_ms=3`")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((name.to_owned(), value))
}

impl From<Begin> for Word {
    fn from(begin: Begin) -> Self {
        let mut change =
            RollOut::new(begin.name, begin.policy).on(Filter::default().under(begin.on));
        change.set = begin.set.into_iter().collect();
        change.alone_while_baking = begin.alone_while_baking;
        Self::RollOut(ChangeRequest {
            change,
            hand_over: begin.hand_over,
            said: begin.signed.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_is_json_or_else_text() {
        let of = field;
        assert_eq!(of("work_ms=3"), Ok(("work_ms".into(), json!(3))));
        assert_eq!(of("version=\"3\""), Ok(("version".into(), json!("3"))));
        assert_eq!(
            of("flags.mode=a=b"),
            Ok(("flags.mode".into(), json!("a=b")))
        );
        assert!(of("version").is_err());
    }
}
