//! What a watch sees between two incarnations.

use prodspec_model::{Asset, AssetId, Digest};

/// A change of what a watch selects of one asset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The asset that changed, came or left.
    pub asset: AssetId,
    /// Digest of the selected content before. `None`: the watch did not select the asset.
    pub before: Option<Digest>,
    /// Digest of the selected content now. `None`: the watch does not select the asset any more.
    pub after: Option<Digest>,
}

/// The changes that a watch sees, of the assets that differ between two incarnations, each with its content before and
/// after. `select` gives the digest of the content that the watch selects of an asset (all of it, or named fields), and
/// `None` for an asset that its filter does not match.
pub fn changes<'a>(
    differ: impl IntoIterator<Item = (AssetId, Option<&'a Asset>, Option<&'a Asset>)>,
    select: impl Fn(&Asset) -> Option<Digest>,
) -> Vec<Change> {
    let select = |asset: Option<&Asset>| asset.and_then(&select);
    let seen = differ.into_iter().map(|(asset, before, after)| Change {
        asset,
        before: select(before),
        after: select(after),
    });
    seen.filter(|change| change.before != change.after)
        .collect()
}
