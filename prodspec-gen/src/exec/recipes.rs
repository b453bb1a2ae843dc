//! Sources that run the usual tools for configuration, each with the arguments, inputs and environment that it needs.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use super::Exec;

/// A home without configuration, for tools that insist on one. The output then depends on no file of a user.
const NO_HOME: &str = "/nonexistent";

/// What the problem of a missing tool says.
const KUBECTL: &str = "the recipe for Kustomize runs it; install kubectl, for example with `apt-get install kubernetes-client` on Debian";
const HELM: &str = "the recipe for Helm runs it; install Helm 3 or later, as https://helm.sh/docs/intro/install tells";
const JSONNET: &str = "the recipe for Jsonnet runs it; install it, for example with `apt-get install jsonnet` on Debian";
const CUE: &str = "the recipe for CUE runs it; install it, as https://cuelang.org/docs/introduction/installation tells";

impl Exec {
    /// The manifests of the Kustomize directory `dir`, as `kubectl kustomize dir` prints them. The source has the name of
    /// the directory.
    ///
    /// The directory is an input. Bases and components outside of it have to be declared too; a reading reports those
    /// that are missing. One that is an address on the network is not noticed when it changes.
    ///
    /// ```
    /// use prodspec_gen::Exec;
    /// let production = Exec::kustomize("overlays/production").input("base").current_dir("/srv/repository");
    /// # drop(production);
    /// ```
    pub fn kustomize(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        recipe(&dir, "kubectl", KUBECTL)
            .arg("kustomize")
            .arg(dir.clone())
            .input(dir.clone())
            .set(|task| task.overlay = Some(dir))
    }

    /// The manifests of the Helm chart in the directory `chart`, as `helm template release chart` prints them with these
    /// files of `values`, of which later ones win. The source has the name of the release.
    ///
    /// The chart and the files of values are inputs. Dependencies of the chart have to be in its directory: the recipe
    /// reads no configuration and no plugins of a user.
    ///
    /// ```
    /// use prodspec_gen::Exec;
    /// let shop = Exec::helm("shop", "charts/shop", ["values/eu.yaml"]).current_dir("/srv/repository");
    /// # drop(shop);
    /// ```
    pub fn helm<V: Into<PathBuf>>(
        release: &str,
        chart: impl Into<PathBuf>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let chart = chart.into();
        let helm = recipe(Path::new(release), "helm", HELM)
            .env("HOME", NO_HOME)
            .env("HELM_NO_PLUGINS", "1")
            .args([
                OsStr::new("template"),
                OsStr::new(release),
                chart.as_os_str(),
            ])
            .input(chart);
        values.into_iter().map(Into::into).fold(helm, |helm, file| {
            helm.args([OsString::from("--values"), file.clone().into()])
                .input(file)
        })
    }

    /// The items of the list that the Jsonnet file `file` evaluates to, one document each, as `jsonnet -y file` prints
    /// them. The source has the name of the file.
    ///
    /// The directory of the file is an input, for its imports. Other libraries are declared with their arguments. For
    /// a file that evaluates to one object, run `jsonnet` without `-y` and read [`json`](Self::json).
    ///
    /// ```
    /// use prodspec_gen::Exec;
    /// let jobs = Exec::jsonnet("jobs/main.jsonnet").args(["-J", "vendor"]).input("vendor");
    /// # drop(jobs);
    /// ```
    pub fn jsonnet(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let directory = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        recipe(&file, "jsonnet", JSONNET)
            .arg("-y")
            .arg(file)
            .input(directory)
            .with_end_marker()
    }

    /// The value of the CUE package in the directory `dir`, as `cue export --out yaml` prints it there: one document.
    /// The source has the name of the directory.
    ///
    /// The program runs in the directory, which is its input. The directory `cue.mod` of its module, and packages
    /// outside of it, have to be declared too, relative to it. Modules of a registry need a `HOME` with their cache,
    /// which [`env`](Self::env) declares; without them no configuration of a user is read.
    ///
    /// ```
    /// use prodspec_gen::Exec;
    /// let jobs = Exec::cue("config/jobs").input("../cue.mod").args(["--expression", "jobs"]);
    /// # drop(jobs);
    /// ```
    pub fn cue(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        recipe(&dir, "cue", CUE)
            .env("HOME", NO_HOME)
            .args(["export", "--out", "yaml"])
            .current_dir(dir)
            .input(".")
    }
}

/// A source with the last name in a path, that runs `tool`.
fn recipe(named: &Path, tool: &str, install: &'static str) -> Exec {
    let name = named.file_name().unwrap_or(named.as_os_str());
    Exec::new(&name.to_string_lossy(), tool).set(|task| task.program.install(install))
}
