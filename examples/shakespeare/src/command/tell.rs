//! `approve`, `override`, `acknowledge`, `pause`, `resume`: what people say to the running control plane.

use control_plane::{
    By,
    model::{AssetId, Digest},
};

use super::Failure;
use crate::{
    control::{Word, client::Control},
    place::Place,
    voice::say,
};

/// The longest pause that ends by itself, in seconds: a year.
const LONGEST_PAUSE: u64 = 365 * 24 * 3600;

/// Who says it, and why.
#[derive(Debug, Clone, clap::Args)]
pub struct Signed {
    /// Who says so; the user of this terminal if not said.
    #[arg(long)]
    who: Option<String>,
    /// Why.
    #[arg(long, default_value = "said at the command line")]
    why: String,
}

impl From<Signed> for By {
    fn from(signed: Signed) -> Self {
        let user = || std::env::var("USER").unwrap_or_else(|_| "somebody".into());
        Self::new(signed.who.unwrap_or_else(user), signed.why)
    }
}

/// Lets a change that destroys through.
#[derive(Debug, Clone, clap::Args)]
pub struct Approve {
    /// Which asset.
    asset: AssetId,
    /// Which change, as `explain` shows it; the present one if not said.
    #[arg(long)]
    change: Option<Digest>,
    #[command(flatten)]
    signed: Signed,
}

/// Lifts a guard (with the digest that its problem names), or a check for one asset.
#[derive(Debug, Clone, clap::Args)]
pub struct Override {
    /// The guard or check, such as `shrink-guard` or `dependency-solver`.
    name: String,
    /// What may pass.
    #[arg(long, required_unless_present = "asset")]
    change: Option<Digest>,
    /// For a check: of which asset.
    #[arg(long)]
    asset: Option<AssetId>,
    #[command(flatten)]
    signed: Signed,
}

/// Stops pushes.
#[derive(Debug, Clone, clap::Args)]
pub struct Pause {
    /// Of one asset only.
    asset: Option<AssetId>,
    /// For so long, in seconds; until `resume`, if not said.
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=LONGEST_PAUSE))]
    seconds: Option<u64>,
    #[command(flatten)]
    signed: Signed,
}

impl From<Approve> for Word {
    fn from(said: Approve) -> Self {
        Self::Approve {
            asset: said.asset,
            change: said.change,
            by: said.signed.into(),
        }
    }
}

impl From<Override> for Word {
    fn from(said: Override) -> Self {
        let by = said.signed.into();
        match (said.asset, said.change) {
            (Some(asset), change) => Self::OverrideCheck {
                check: said.name,
                asset,
                change,
                by,
            },
            (None, digest) => Self::OverrideGuard {
                guard: said.name,
                // The command line asks for it.
                digest: digest.unwrap_or(Digest([0; 32])),
                by,
            },
        }
    }
}

impl From<Pause> for Word {
    fn from(said: Pause) -> Self {
        Self::Pause {
            asset: said.asset,
            seconds: said.seconds,
            by: said.signed.into(),
        }
    }
}

/// Passes a word on.
///
/// # Errors
/// When no control plane runs, or it says no.
pub async fn tell(place: &Place, word: Word) -> Result<(), Failure> {
    Control::find(place)?.tell(&word).await?;
    say("noted");
    Ok(())
}
