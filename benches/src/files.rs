//! The files of scenarios that read a directory: ten jobs in each file.

use std::{fs, path::Path};

use crate::Error;

/// Number of assets in each file.
pub(crate) const EACH: usize = 10;

/// The name of the first service of file number `file`.
pub(crate) fn first(file: usize) -> String {
    service(file * EACH)
}

/// The name of service number `no`.
pub(crate) fn service(no: usize) -> String {
    format!("service-{no:07}")
}

/// Writes file number `file`, whose first asset has the version `version`.
pub(crate) fn write(dir: &Path, file: usize, version: u64) -> Result<(), Error> {
    let jobs = (0..EACH).map(|nth| {
        let (version, no) = (if nth == 0 { version } else { 1 }, file * EACH + nth);
        let (service, cluster) = (service(no), no % 50);
        format!("{service}: {{cluster: cluster-{cluster:02}, replicas: 3, version: {version}}}\n")
    });
    let path = dir.join(format!("{file:06}.yaml"));
    Ok(fs::write(path, jobs.collect::<String>())?)
}
