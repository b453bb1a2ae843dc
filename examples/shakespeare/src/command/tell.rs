//! `approve`, `override`, `acknowledge`, `pause`, `resume`: what people say to the running control plane.

use control_plane::model::{AssetId, Digest};

use super::Failure;
use crate::{
    control::{Said, Word, client::Control},
    place::Place,
    voice::say,
};

/// The longest pause that ends by itself, in seconds: a year.
const LONGEST_PAUSE: u64 = 365 * 24 * 3600;

/// Who says it, and why.
#[derive(Debug, Clone, clap::Args)]
pub struct Signed {
    /// What you call yourself: noted beside the user that runs this command.
    #[arg(long)]
    who: Option<String>,
    /// Why.
    #[arg(long, default_value = "said at the command line")]
    why: String,
}

impl From<Signed> for Said {
    fn from(Signed { who, why }: Signed) -> Self {
        Self { who, why }
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

/// Lets pushes start again.
#[derive(Debug, Clone, clap::Args)]
pub struct Resume {
    /// One asset only.
    asset: Option<AssetId>,
    #[command(flatten)]
    signed: Signed,
}

/// Says that what stopped enforcement has been looked at.
#[derive(Debug, Clone, clap::Args)]
pub struct Clear {
    #[command(flatten)]
    signed: Signed,
}

impl From<Clear> for Word {
    fn from(said: Clear) -> Self {
        Self::ClearStop {
            said: said.signed.into(),
        }
    }
}

/// Says something of one asset.
#[derive(Debug, Clone, clap::Args)]
pub struct About {
    /// Which asset.
    asset: AssetId,
    #[command(flatten)]
    signed: Signed,
}

impl About {
    /// The orphan is known about.
    pub fn acknowledged(self) -> Word {
        Word::Acknowledge {
            asset: self.asset,
            said: self.signed.into(),
        }
    }

    /// The push of unknown outcome does not run any more.
    pub fn is_over(self) -> Word {
        Word::PushIsOver {
            asset: self.asset,
            said: self.signed.into(),
        }
    }
}

impl From<Resume> for Word {
    fn from(said: Resume) -> Self {
        Self::Resume {
            asset: said.asset,
            said: said.signed.into(),
        }
    }
}

impl From<Approve> for Word {
    fn from(said: Approve) -> Self {
        Self::Approve {
            asset: said.asset,
            change: said.change,
            said: said.signed.into(),
        }
    }
}

impl From<Override> for Word {
    fn from(said: Override) -> Self {
        let signed = said.signed.into();
        match (said.asset, said.change) {
            (Some(asset), change) => Self::OverrideCheck {
                check: said.name,
                asset,
                change,
                said: signed,
            },
            (None, digest) => Self::OverrideGuard {
                guard: said.name,
                // The command line asks for it.
                digest: digest.unwrap_or(Digest([0; 32])),
                said: signed,
            },
        }
    }
}

impl From<Pause> for Word {
    fn from(said: Pause) -> Self {
        Self::Pause {
            asset: said.asset,
            seconds: said.seconds,
            said: said.signed.into(),
        }
    }
}

/// Passes a word on.
///
/// # Errors
/// When no control plane runs, or it says no.
pub async fn tell(place: &Place, word: Word) -> Result<(), Failure> {
    Control::find(place).await?.tell(&word).await?;
    say("noted");
    Ok(())
}
