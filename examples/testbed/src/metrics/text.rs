//! Parses the metrics answer of a process. The parser library skips lines that it cannot read; here such a line is an
//! error, because a skipped series would look like a series that does not exist.

use std::{collections::BTreeMap, str};

use prometheus_parse::{LineInfo, Scrape, Value};

/// Maximum size of one answer, in bytes.
pub(super) const BYTES: usize = 256 << 10;
/// Maximum number of series in one answer.
const SERIES: usize = 1000;
/// Last line of a complete answer.
const END: &str = "# EOF\n";

/// The value of one series at one point in time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) metric: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

/// Why an answer is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("more than {BYTES} bytes or {SERIES} series: expose fewer")]
    TooLong,
    #[error("the end is missing: the answer was cut off")]
    Cut,
    #[error("line {0} is not in the Prometheus text format")]
    Line(usize),
}

/// Parses a whole answer; any line that cannot be read makes it an error.
pub(super) fn parse(said: &[u8]) -> Result<Vec<Sample>, Error> {
    if said.len() > BYTES {
        return Err(Error::TooLong);
    }
    let text = str::from_utf8(said).map_err(|_| Error::Line(0))?;
    if !text.ends_with(END) {
        return Err(Error::Cut);
    }
    let mut samples = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        if samples.len() == SERIES {
            return Err(Error::TooLong);
        }
        samples.push(sample(line).ok_or(Error::Line(at + 1))?);
    }
    Ok(samples)
}

fn sample(line: &str) -> Option<Sample> {
    let LineInfo::Sample { labels, .. } = LineInfo::parse(line) else {
        return None;
    };
    let said: Vec<&str> = labels.map_or(vec![], |labels| labels.split(',').collect());
    if !said.iter().all(|label| plain(label)) {
        return None;
    }
    // The line is parsed without its `# TYPE` comment, so that each bucket of a histogram stays a series of its own.
    let read = Scrape::parse_at(std::iter::once(Ok(line.to_owned())), Default::default());
    let [read] = <[_; 1]>::try_from(read.ok()?.samples).ok()?;
    let Value::Untyped(value) = read.value else {
        return None;
    };
    let labels: BTreeMap<String, String> = read
        .labels
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    (labels.len() == said.len()).then_some(Sample {
        metric: read.metric,
        labels,
        value,
    })
}

/// Returns true if the parser library reads this label correctly. It supports neither escapes nor commas in values.
fn plain(label: &str) -> bool {
    let value = label.split_once("=\"").map(|(_, value)| value);
    let value = value.and_then(|value| value.strip_suffix('"'));
    value.is_some_and(|value| !value.contains(['"', '\\', '=']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_answer_is_parsed() {
        let said = "# TYPE http_requests counter\nhttp_requests_total{code=\"200\",version=\"2\"} 7\nup 1\n# EOF\n";
        let samples = parse(said.as_bytes()).unwrap();
        assert_eq!(samples.len(), 2);
        assert_eq!(samples[0].metric, "http_requests_total");
        assert_eq!(samples[0].labels["code"], "200");
        assert_eq!((samples[0].value, samples[1].value), (7.0, 1.0));
    }

    #[test]
    fn nan_value_stays_nan() {
        let samples = parse(b"up NaN\n# EOF\n").unwrap();
        assert!(samples[0].value.is_nan());
    }

    #[test]
    fn answer_that_is_cut_off_garbled_or_too_long_is_refused() {
        for cut in ["", "up 1", "up 1\n", "up 1\n# EO"] {
            assert!(matches!(parse(cut.as_bytes()), Err(Error::Cut)), "{cut:?}");
        }
        for garbled in [
            "up",
            "up one",
            "up{a=\"b\" 1",
            "up{a=\"b,c\"} 1",
            "<html>",
            "up{a=\"x\",a=\"y\"} 1",
        ] {
            let said = format!("ok 1\n{garbled}\n# EOF\n");
            let read = parse(said.as_bytes());
            assert!(matches!(read, Err(Error::Line(2))), "{garbled:?}: {read:?}");
        }
        let long = format!("{}\n{END}", " ".repeat(BYTES));
        assert!(matches!(parse(long.as_bytes()), Err(Error::TooLong)));
        let many = format!("{}{END}", "up 1\n".repeat(SERIES + 1));
        assert!(matches!(parse(many.as_bytes()), Err(Error::TooLong)));
        assert!(matches!(parse(b"up\xff 1\n# EOF\n"), Err(Error::Line(0))));
    }
}
