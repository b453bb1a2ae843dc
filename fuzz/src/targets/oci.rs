//! OCI image layouts from bytes.
//!
//! An input is the manifest in its line, and the layers as [`parts`]. In the manifest, `@0` is the descriptor of the first
//! layer, with the right digest, and so on.

use plugins_archive::OciLayout;
use sha2::{Digest, Sha256};

use super::{
    LIMITS,
    parsers::same,
    parts,
    tars::{ARCHIVES, Disk, PATH, class, contained, gzip, mend, packed, refused},
};
use crate::target::{Broken, Class, Effort, Target};

/// The reader of image layouts.
#[derive(Debug)]
pub(crate) struct Layouts(Disk);

impl Layouts {
    /// A reader with a directory of its own.
    pub(crate) fn new() -> Self {
        Self(Disk::new())
    }

    /// Writes the layout of an input. Returns the digest of its manifest.
    fn write(&self, input: &[u8]) -> Result<String, Broken> {
        let (manifest, layers) = parts::split(input);
        let mut text = String::from_utf8_lossy(manifest).into_owned();
        for (nth, layer) in layers.iter().enumerate() {
            let digest = self.blob(layer)?;
            let descriptor = format!(
                r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:{digest}","size":{}}}"#,
                layer.len()
            );
            text = text.replace(&format!("@{nth}"), &descriptor);
        }
        let digest = self.blob(text.as_bytes())?;
        self.0
            .write("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        self.0
            .write("index.json", br#"{"schemaVersion":2,"manifests":[]}"#)?;
        Ok(format!("sha256:{digest}"))
    }

    fn blob(&self, bytes: &[u8]) -> Result<String, Broken> {
        let digest: String = Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.0.write(&format!("blobs/sha256/{digest}"), bytes)?;
        Ok(digest)
    }
}

const WORDS: &[&str] = &[
    "@0",
    "@1",
    "\"layers\":[]",
    "{\"digest\":\"sha256:../../../etc/passwd\",\"size\":1}",
    "\"mediaType\":",
    "\"size\":0",
    "configs/.wh.a.yaml",
    "configs/.wh..wh..opq",
    "../",
    ".wh.configs",
];

impl Target for Layouts {
    fn name(&self) -> &'static str {
        "oci"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let lower = packed(&[
            ("configs/a.yaml", "a: 1\n"),
            ("configs/sub/b.yaml", "b: 1\n"),
            ("configs/gone.yaml", "c: 1\n"),
        ]);
        let upper = [
            ("configs/.wh.gone.yaml", ""),
            ("configs/sub/.wh..wh..opq", ""),
            ("configs/a.yaml", "a: 2\n"),
        ];
        let manifest = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":[@0,@1]}"#;
        let nested = r#"{"schemaVersion":2,"manifests":[{"digest":"sha256:x","size":1}]}"#;
        vec![
            parts::join(manifest.as_bytes(), &[lower.clone(), packed(&upper)]),
            parts::join(manifest.as_bytes(), &[gzip(&lower), gzip(&packed(&upper))]),
            parts::join(nested.as_bytes(), &[]),
        ]
    }

    fn words(&self) -> &'static [&'static str] {
        WORDS
    }

    fn mend(&self, bytes: &mut Vec<u8>) {
        let (manifest, layers) = parts::split(bytes);
        let mut layers = layers.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
        layers.iter_mut().for_each(mend);
        *bytes = parts::join(manifest, &layers);
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        let blobs = self.0.path("blobs/sha256");
        std::fs::remove_dir_all(&blobs).ok();
        std::fs::create_dir_all(&blobs).map_err(super::tars::disk)?;
        let digest = self.write(input)?;
        let layout = || {
            OciLayout::new(self.0.path(""))
                .digest(&digest)
                .limits(ARCHIVES)
        };
        let source = || layout().yaml().limits(LIMITS).path(PATH).named("image");
        match (self.0.read(&source())?, self.0.read(&source())?) {
            (Ok(first), Ok(second)) => {
                same(&first.documents, &second.documents)?;
                contained(&first.documents)?;
                Ok(class(&first.documents))
            }
            (Err(problems), Err(_)) => Ok(refused(&problems)),
            (first, second) => Err(Broken {
                law: "an image that is read again is the same",
                details: format!("{first:?}\nthen {second:?}"),
            }),
        }
    }
}
