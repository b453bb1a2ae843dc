//! `approve`, `override`, `acknowledge`, `over`, `clear`, `pause`, `resume`: an operator's commands to the running
//! control plane.

use control_plane::model::{AssetId, Digest};

use crate::{
    control::{Said, Word, client::Control},
    place::Place,
    program::Failure,
    voice::say,
};

/// Maximum of `pause --for`, in seconds: one year.
const LONGEST_PAUSE: u64 = 365 * 24 * 3600;

/// The name and the reason that an operator gives with a command.
#[derive(Debug, Clone, clap::Args)]
pub struct Signed {
    /// Your name. It is recorded beside the user that runs this command.
    #[arg(long)]
    who: Option<String>,
    /// The reason, which is recorded with the command.
    #[arg(long, default_value = "given at the command line")]
    why: String,
}

impl From<Signed> for Said {
    fn from(Signed { who, why }: Signed) -> Self {
        Self { who, why }
    }
}

/// Approves one change of an asset, or a set of changes.
#[derive(Debug, Clone, clap::Args)]
pub struct Approve {
    /// Id of the asset to change.
    #[arg(required_unless_present = "set")]
    asset: Option<AssetId>,
    /// Digest of a set of changes, or its beginning, as `approvals` shows it.
    #[arg(long, requires = "size", conflicts_with_all = ["asset", "change"])]
    set: Option<String>,
    /// Number of changes in the set.
    #[arg(long)]
    size: Option<usize>,
    /// Digest of the change, as `explain` shows it. Default: the pending change.
    #[arg(long)]
    change: Option<Digest>,
    #[command(flatten)]
    signed: Signed,
}

/// Overrides a guard for one seal, or a check for one change of an asset.
#[derive(Debug, Clone, clap::Args)]
pub struct Override {
    /// Name of the guard or check, such as `shrink-guard` or `dependency-solver`.
    name: String,
    /// Digest of what may pass. For a guard, its problem names the digest. For a check, the default is the pending
    /// change.
    #[arg(long, required_unless_present = "asset")]
    change: Option<Digest>,
    /// For a check: id of the asset whose change may pass.
    #[arg(long)]
    asset: Option<AssetId>,
    #[command(flatten)]
    signed: Signed,
}

/// Pauses pushes: no new push starts.
#[derive(Debug, Clone, clap::Args)]
pub struct Pause {
    /// Id of the asset to pause. Default: all assets.
    asset: Option<AssetId>,
    /// Length of the pause, in seconds. Default: until `resume`.
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=LONGEST_PAUSE))]
    seconds: Option<u64>,
    #[command(flatten)]
    signed: Signed,
}

/// Ends a pause, so that pushes start again.
#[derive(Debug, Clone, clap::Args)]
pub struct Resume {
    /// Id of the asset to resume. Default: the pause of all assets.
    asset: Option<AssetId>,
    #[command(flatten)]
    signed: Signed,
}

/// Starts enforcement again after a violated invariant stopped it.
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

/// Names the asset that a command is about.
#[derive(Debug, Clone, clap::Args)]
pub struct About {
    /// Id of the asset, such as `job/eu`.
    asset: AssetId,
    #[command(flatten)]
    signed: Signed,
}

impl About {
    /// Makes the command that acknowledges the asset as an orphan.
    pub(super) fn acknowledged(self) -> Word {
        Word::Acknowledge {
            asset: self.asset,
            said: self.signed.into(),
        }
    }

    /// Makes the command that confirms that the asset's push with unknown outcome is over.
    pub(super) fn over(self) -> Word {
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
        let signed = said.signed.into();
        match (said.asset, said.set) {
            (Some(asset), _) => Self::Approve {
                asset,
                change: said.change,
                said: signed,
            },
            // The command line requires a set if there is no asset.
            (None, set) => Self::ApproveSet {
                set: set.unwrap_or_default(),
                size: said.size.unwrap_or_default(),
                said: signed,
            },
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
                // The command line requires a digest if there is no asset.
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

/// Sends a command to the running control plane and prints that it was accepted.
///
/// # Errors
/// When no control plane is running, or it refuses the command.
pub(super) async fn tell(place: &Place, word: Word) -> Result<(), Failure> {
    Control::find(place).await?.tell(&word).await?;
    say("done");
    Ok(())
}
