// What the Access page sends, and the same as arguments of jobctl.

/** @import { Namespace, Permissions } from "../../types.d.ts" */

/** @typedef {{ Name: string, Role: string, Namespaces: string[], TTLSeconds: number }} NewToken */

/** The kinds of things that a namespace permits, and the words of each. @type {[keyof Permissions, string[]][]} */
export const KINDS = [
  ["Engines", ["docker", "wasm"]],
  ["Networks", ["None", "Full", "HTTP"]],
  ["Sources", ["inline", "urldownload", "localdirectory", "s3", "repoclone", "repoclonelfs", "ipfs"]],
  ["Publishers", ["local", "s3", "ipfs"]],
];

/** Roles of the cluster apply to all namespaces, and name none. @param {string} role */
export function isOfTheCluster(role) {
  return role === "operator" || role === "admin";
}

/** @param {NewToken} token */
export function tokenArguments({ Name, Role, Namespaces, TTLSeconds }) {
  return [
    ...["token", "create", Name, "--role", Role],
    ...Namespaces.flatMap((name) => ["--namespace", name]),
    ...(TTLSeconds ? ["--ttl", `${TTLSeconds / 3600}h`] : []),
  ];
}

/** @param {Pick<Namespace, "Name" | "Description" | "Permissions">} namespace */
export function namespaceArguments({ Name, Description, Permissions }) {
  return [
    ...["namespace", "put", Name],
    ...(Description ? ["--description", Description] : []),
    ...KINDS.flatMap(([kind]) => {
      const words = Permissions[kind];
      return words ? [`--${kind.toLowerCase()}`, words.join(",")] : [];
    }),
  ];
}

/** What jobs may ask for, in words. @param {Permissions} permissions */
export function permissionText(permissions) {
  const parts = KINDS.flatMap(([kind]) => {
    const words = permissions[kind];
    return words ? [`${kind.toLowerCase()}: ${words.join(", ") || "nothing"}`] : [];
  });
  return parts.join("; ") || "everything";
}
