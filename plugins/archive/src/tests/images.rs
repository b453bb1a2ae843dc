//! OCI image layouts.

use std::fs;

use plugin_sdk::{SourceOfTruth, Update};
use serde_json::{Value, json};

use super::{gzip, names, packed, refusal};
use crate::{Limits, OciLayout, unpacked::sha256};

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A layout on disk.
struct Image {
    dir: tempfile::TempDir,
    digest: String,
}

impl Image {
    /// An image of these layers, lowest first. Every second one is compressed.
    fn of(layers: &[&[(&str, &str)]]) -> Self {
        let mut image = Self {
            dir: tempfile::tempdir().unwrap(),
            digest: String::new(),
        };
        fs::create_dir_all(image.dir.path().join("blobs/sha256")).unwrap();
        image.write("oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#);
        let layer = |(nth, files): (usize, &&[(&str, &str)])| match nth % 2 {
            0 => image.descriptor(LAYER, &packed(files)),
            _ => image.descriptor(&format!("{LAYER}+gzip"), &gzip(&packed(files))),
        };
        let layers: Vec<Value> = layers.iter().enumerate().map(layer).collect();
        image.digest = image.manifest(&layers);
        image
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.dir.path().join(name), bytes).unwrap();
    }

    fn blob(&self, bytes: &[u8]) -> String {
        let digest = sha256(bytes);
        self.write(&format!("blobs/{}", digest.replace(':', "/")), bytes);
        digest
    }

    fn descriptor(&self, media_type: &str, bytes: &[u8]) -> Value {
        json!({"mediaType": media_type, "digest": self.blob(bytes), "size": bytes.len()})
    }

    /// Writes a manifest of these layers and an index that names it. Returns its digest.
    fn manifest(&self, layers: &[Value]) -> String {
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers});
        let descriptor = self.descriptor(MANIFEST, manifest.to_string().as_bytes());
        let index = json!({"schemaVersion": 2, "manifests": [descriptor]});
        self.write("index.json", index.to_string().as_bytes());
        descriptor["digest"].as_str().unwrap().to_owned()
    }

    fn layout(&self) -> OciLayout {
        OciLayout::new(self.dir.path()).digest(&self.digest)
    }
}

#[tokio::test]
async fn layers_are_laid_on_top_of_each_other_with_whiteouts() {
    let image = Image::of(&[
        &[
            ("configs/", ""),
            ("configs/changed.yaml", "a: 1"),
            ("configs/kept.yaml", "a: 1"),
            ("configs/gone.yaml", "a: ["),
            ("configs/gone/a.yaml", "a: ["),
            ("configs/emptied/a.yaml", "a: ["),
            ("configs/file/a.yaml", "a: ["),
            ("configs/link", "->/etc"),
        ],
        &[
            ("configs/changed.yaml", "a: 2\n---\na: 3"),
            ("configs/.wh.gone.yaml", ""),
            ("configs/.wh.gone", ""),
            ("configs/emptied/b.yaml", "a: 1"),
            ("configs/emptied/.wh..wh..opq", ""),
            ("configs/file", "now a file"),
            ("configs/link/", ""),
            ("configs/link/a.yaml", "a: 1"),
        ],
        &[("configs/gone.yaml", "a: 4")],
    ]);
    let expected = [
        "configs/changed.yaml#0",
        "configs/changed.yaml#1",
        "configs/emptied/b.yaml#0",
        "configs/gone.yaml#0",
        "configs/kept.yaml#0",
        "configs/link/a.yaml#0",
    ];
    let source = image.layout().yaml().path("configs");
    assert_eq!(names(&source).await, expected);
    assert_eq!(*source.read().await.unwrap().revision.0, *image.digest);
}

#[tokio::test]
async fn r43_pinned_image_is_read_once() {
    let image = Image::of(&[&[("a.yaml", "a: 1")]]);
    let source = image.layout().yaml();
    let first = source.read().await.unwrap().revision;
    fs::remove_dir_all(image.dir.path()).unwrap();
    assert_eq!(source.read_since(&first).await.unwrap(), Update::Same);
    assert_eq!(source.read().await.unwrap().documents.len(), 1);
}

#[tokio::test]
async fn blob_with_another_digest_is_refused() {
    let image = Image::of(&[&[("a.yaml", "a: 1")], &[("b.yaml", "a: 1")]]);
    for blob in fs::read_dir(image.dir.path().join("blobs/sha256")).unwrap() {
        let path = blob.unwrap().path();
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[20] ^= 1;
        fs::write(&path, bad).unwrap();
        let said = refusal(&image.layout().yaml()).await;
        assert!(said.contains("it is damaged or was changed"), "{said}");
        fs::write(&path, good).unwrap();
    }
    assert_eq!(names(&image.layout().yaml()).await.len(), 2);
}

#[tokio::test]
async fn digest_that_is_not_pinned_or_not_there_is_refused_with_the_choice() {
    let image = Image::of(&[&[("a.yaml", "a: 1")]]);
    let other = sha256(b"other");
    let refused = |digest: &str| {
        let layout = OciLayout::new(image.dir.path()).digest(digest);
        async move { refusal(&layout.yaml()).await }
    };
    for (digest, expected) in [("", "no digest is pinned"), (&*other, "has no blob")] {
        let said = refused(digest).await;
        assert!(
            said.contains(expected) && said.contains(&image.digest),
            "{said}"
        );
    }
    let said = refused("sha256:../../index.json").await;
    assert!(said.contains("is no digest"), "{said}");
    let index = json!({"schemaVersion": 2, "manifests": [{"digest": image.digest}]});
    let index = image.blob(index.to_string().as_bytes());
    let said = refused(&index).await;
    assert!(
        said.contains("names several images") && said.contains(&image.digest),
        "{said}"
    );
}

#[tokio::test]
async fn layers_that_cannot_be_read_are_refused() {
    let image = Image::of(&[&[("a.yaml", "a: 1")]]);
    let bytes = packed(&[("a.yaml", "a: 1")]);
    let refused = |layer: Value| {
        let digest = image.manifest(&[layer]);
        let layout = OciLayout::new(image.dir.path()).digest(&digest);
        async move { refusal(&layout.yaml()).await }
    };
    let said = refused(image.descriptor("application/json", b"{}")).await;
    assert!(
        said.contains("is a `application/json`; only tar archives"),
        "{said}"
    );
    let mut descriptor = image.descriptor(LAYER, &bytes);
    descriptor["size"] = 7.into();
    let said = refused(descriptor).await;
    assert!(said.contains("bytes, not 7"), "{said}");
    let said = refused(image.descriptor(LAYER, &bytes[..600])).await;
    assert!(
        said.contains("layer sha256:") && said.contains("is cut off"),
        "{said}"
    );
    let twice = packed(&[("a.yaml", "a: 1"), ("a.yaml", "a: 1")]);
    let said = refused(image.descriptor(LAYER, &twice)).await;
    assert!(
        said.contains("a.yaml at sha256:") && said.contains("is there twice"),
        "{said}"
    );
    let limits = Limits {
        packed: 100,
        ..Limits::default()
    };
    let said = refusal(&image.layout().limits(limits).yaml()).await;
    assert!(said.contains("100 are allowed"), "{said}");
}
