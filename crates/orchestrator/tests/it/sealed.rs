//! What secrets and credentials have in common: they are sealed records of namespaces.

use serde_json::{Value, json};

use crate::server::{Server, list, text};

/// A kind of sealed record, as the API names it.
pub(crate) struct Kind {
    pub(crate) path: &'static str,
    one: &'static str,
    all: &'static str,
    absent: &'static str,
}

pub(crate) const SECRETS: Kind = Kind {
    path: "/api/v1/orchestrator/secrets",
    one: "Secret",
    all: "Secrets",
    absent: "SecretNotFound",
};

pub(crate) const CREDENTIALS: Kind = Kind {
    path: "/api/v1/orchestrator/credentials",
    one: "Credential",
    all: "Credentials",
    absent: "CredentialNotFound",
};

impl Kind {
    pub(crate) fn path(&self, name: &str, namespace: &str) -> String {
        format!("{}/{name}?namespace={namespace}", self.path)
    }

    /// One record is put twice, another once, and both are listed; `hidden` is shown nowhere.
    pub(crate) async fn is_put_listed_and_deleted(
        &self,
        server: &Server,
        [body, other]: [&Value; 2],
        hidden: &str,
    ) {
        let path = self.path("one", "prod");
        for version in [1, 2] {
            let put = server.put(&path, body).await;
            let found = &put.ok()[self.one];
            assert_eq!((&found["Name"], &found["Namespace"]), (&json!("one"), &json!("prod")));
            assert_eq!(found["Version"], version);
            assert!(!put.text.contains(hidden), "{}", put.text);
        }
        server.put(&self.path("other", "test"), other).await.ok();
        assert_eq!(server.get(&path).await.ok()[self.one]["Version"], 2);
        let names = async |query: &str| {
            let listed = server.get(&format!("{}{query}", self.path)).await;
            let found = list(&listed.ok()[self.all]).iter();
            found.map(|it| text(&it["Name"])).collect::<Vec<_>>()
        };
        assert_eq!(names("?namespace=prod").await, ["one"]);
        assert_eq!(names("?namespace=*").await, ["one", "other"]);
        assert_eq!(names("").await, Vec::<String>::new(), "default has none");

        // On the disk it is encrypted.
        for file in std::fs::read_dir(server.data_dir()).expect("the directory") {
            let bytes = std::fs::read(file.expect("an entry").path()).unwrap_or_default();
            assert!(!bytes.windows(hidden.len()).any(|part| part == hidden.as_bytes()));
        }
        assert_eq!(server.delete(&path).await.ok()[self.one]["Version"], 2);
        server.delete(&path).await.refused(404, self.absent);
        server.get(&path).await.refused(404, self.absent);
    }
}
