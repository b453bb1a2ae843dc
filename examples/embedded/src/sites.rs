//! Production: a directory with one file per page, and the plugin that compares and writes these files.

use std::{
    io::{Error, ErrorKind},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use plugin_sdk::{
    AssetPlugin, Change, Diff, DiffRequest, Effects, FieldChange, PushRequest, Pushed, plugin,
};
use prodspec_model::AssetId;

use crate::model::Page;

/// Asset plugin that keeps each page as a file in one directory.
#[derive(Debug, Clone)]
pub struct Files {
    directory: PathBuf,
}

impl Files {
    /// Creates the plugin for the pages in `directory`, which must exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// Path of a page's file. Each `/` of the id becomes `+`, a character that no id contains, so names are unique.
    pub fn path(&self, page: &AssetId) -> PathBuf {
        self.directory.join(page.as_str().replace('/', "+"))
    }

    async fn there(&self, page: &AssetId) -> Result<Option<String>, plugin::Error> {
        let path = self.path(page);
        match tokio::fs::read_to_string(&path).await {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, &error)),
        }
    }

    /// Writes a temporary file in the same directory and renames it, so that a reader never sees half a page.
    async fn write(&self, page: &AssetId, text: &str) -> Result<(), plugin::Error> {
        let path = self.path(page);
        let beside = self
            .directory
            .join(format!(".{}", page.as_str().replace('/', "+")));
        let written = async {
            tokio::fs::write(&beside, text).await?;
            tokio::fs::rename(&beside, &path).await
        };
        written.await.map_err(|error| failed(&path, &error))
    }
}

fn failed(path: &Path, error: &Error) -> plugin::Error {
    let message = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::IsADirectory => plugin::Error::permanent(message),
        _ => plugin::Error::transient(message),
    }
}

#[async_trait]
impl AssetPlugin for Files {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let page: Page = read(&asset)?;
        let there = self.there(request.asset_id()).await?;
        if there.as_ref() == Some(&page.text) {
            return Ok(Diff::in_sync());
        }
        let summary = match &there {
            None => "write the page",
            Some(_) => "rewrite the page",
        };
        let text = FieldChange::new("text", there, page.text);
        let change = Change::new(&asset, summary, vec![text], Effects::default());
        Ok(Diff::differs(change))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let page: Page = read(&request.asset()?)?;
        self.write(request.asset_id(), &page.text).await?;
        Ok(Pushed::Done)
    }
}

fn read(asset: &prodspec_model::Asset) -> Result<Page, plugin::Error> {
    asset
        .payload()
        .map_err(|error| plugin::Error::permanent(error.to_string()))
}
