//! The seeds: texts that look like real files, each also as it would be written on Windows.

/// Texts of one format, from `seeds/`.
macro_rules! texts {
    ($($file:literal),*) => { [$(include_bytes!(concat!("../seeds/", $file)).as_slice()),*] };
}

/// Texts in YAML.
pub(crate) fn yaml() -> Vec<Vec<u8>> {
    let texts = texts!(
        "yaml/clusters.yaml",
        "yaml/blocks.yaml",
        "yaml/scalars.yaml",
        "yaml/stream.yaml",
        "yaml/flow.yaml",
        "yaml/laughs.yaml",
        "json/service.json"
    );
    with_windows(&texts)
}

/// Texts in JSON.
pub(crate) fn json() -> Vec<Vec<u8>> {
    with_windows(&texts!("json/service.json", "json/list.json"))
}

/// Texts in TOML.
pub(crate) fn toml() -> Vec<Vec<u8>> {
    with_windows(&texts!("toml/service.toml", "toml/dotted.toml"))
}

/// Kubernetes manifests.
pub(crate) fn kubernetes() -> Vec<Vec<u8>> {
    let texts = texts!(
        "kubernetes/list.yaml",
        "kubernetes/stream.yaml",
        "kubernetes/crd.yaml",
        "kubernetes/objects.json"
    );
    with_windows(&texts)
}

/// A definition of a custom resource, with resources.
pub(crate) fn custom_resources() -> Vec<Vec<u8>> {
    texts!("kubernetes/crd.yaml").map(<[u8]>::to_vec).to_vec()
}

/// iCalendar texts.
pub(crate) fn calendars() -> Vec<Vec<u8>> {
    with_windows(&texts!("calendar/freezes.ics"))
}

/// JSON of records and messages, one in each line.
pub(crate) fn records() -> Vec<Vec<u8>> {
    let [all] = texts!("records/all.jsonl");
    all.split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

/// The texts, and each with a byte order mark and the line ends of Windows.
fn with_windows(texts: &[&[u8]]) -> Vec<Vec<u8>> {
    let windows = |text: &&[u8]| {
        let lines = text.split(|byte| *byte == b'\n').collect::<Vec<_>>();
        [b"\xef\xbb\xbf".as_slice(), &lines.join(b"\r\n".as_slice())].concat()
    };
    let plain = texts.iter().map(|text| text.to_vec());
    plain.chain(texts.iter().map(windows)).collect()
}
