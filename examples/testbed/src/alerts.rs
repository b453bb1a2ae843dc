//! Firing alerts: a file in the state directory with one alert per line, such as `LatencyHigh`, or `LatencyHigh eu` for
//! an alert about a single cluster. The file stands in for a real alerting system. Without the file, no alert fires.

use std::{fs, io, path::PathBuf};

use control_plane::{
    prelude::{BoxError, Timestamp, async_trait},
    sdk::{Alert, SignalSource, Signals},
};

use crate::production::clock::now_micros;

/// Name of the label that holds the cluster of an alert.
pub const CLUSTER: &str = "cluster";

/// Signal source that reads the alerts file at each query.
#[derive(Debug, Clone)]
pub struct AlertFile(pub PathBuf);

#[async_trait]
impl SignalSource for AlertFile {
    async fn firing(&self) -> Result<Signals, BoxError> {
        let as_of = Timestamp::from_microsecond(i64::try_from(now_micros())?)?;
        let text = match fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error.into()),
        };
        let firing = text.lines().filter_map(alert).collect();
        Ok(Signals { firing, as_of })
    }
}

fn alert(line: &str) -> Option<Alert> {
    let mut words = line.split_whitespace();
    let alert = Alert::named(words.next()?);
    Some(match words.next() {
        Some(cluster) => alert.label(CLUSTER, cluster),
        None => alert,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn alert_file_gives_one_alert_per_line_and_none_when_missing() {
        let dir = tempfile::tempdir().unwrap();
        let file = AlertFile(dir.path().join("alerts"));
        assert_eq!(file.firing().await.unwrap().firing, []);
        fs::write(&file.0, "Slow\n\n  Full us\n").unwrap();
        let firing = file.firing().await.unwrap().firing;
        let expected = [
            Alert::named("Slow"),
            Alert::named("Full").label(CLUSTER, "us"),
        ];
        assert_eq!(firing, expected);
        fs::remove_file(&file.0).unwrap();
        fs::create_dir(&file.0).unwrap();
        assert!(
            file.firing().await.is_err(),
            "an unreadable file is an error"
        );
    }
}
