// What the pages of Access send, and the same as arguments of jobctl.

import { option } from "../commands.js";
import { quoted } from "../format.js";
import { quotaArguments } from "./quota.js";

/** @import { Namespace, Permissions, Quota } from "../../types.d.ts" */

/** @typedef {{ Name: string, Role: string, Namespaces: string[], TTLSeconds: number }} NewToken */

/** @typedef {Exclude<keyof Permissions, "Capabilities">} Kind */

/** The kinds of things that a namespace permits, and the words of each, if they are known. @type {[Kind, string[]][]} */
export const KINDS = [
  ["Engines", ["docker", "wasm"]],
  ["Networks", ["None", "Full", "HTTP"]],
  [
    "Sources",
    ["inline", "urldownload", "localdirectory", "s3", "repoclone", "repoclonelfs", "ipfs", "job"],
  ],
  ["Publishers", ["local", "s3", "ipfs"]],
  ["Registries", []],
];

/** What a join token bounds: the unit that people write, and how many of the API's it has. */
export const BOUNDS = [
  { name: "CPU", unit: "cores", size: 1, step: 0.001, flag: "--max-cpu", suffix: "" },
  { name: "Memory", unit: "GB", size: 1e9, step: 0.1, flag: "--max-memory", suffix: "GB" },
  { name: "Disk", unit: "GB", size: 1e9, step: 0.1, flag: "--max-disk", suffix: "GB" },
  { name: "GPU", unit: "", size: 1, step: 1, flag: "--max-gpu", suffix: "" },
];

/** Roles of the cluster apply to all namespaces, and name none. @param {string} role */
export function isOfTheCluster(role) {
  return ["monitor", "operator", "admin"].includes(role);
}

/** @param {NewToken} token */
export function tokenArguments({ Name, Role, Namespaces, TTLSeconds }) {
  return [
    ...["token", "create", Name, "--role", Role],
    ...Namespaces.flatMap((name) => ["--namespace", name]),
    ...(TTLSeconds ? ["--ttl", `${TTLSeconds / 3600}h`] : []),
  ];
}

/** @param {Pick<Namespace, "Name" | "Description" | "Permissions" | "Nodes"> & { MaxPriority?: number, Quota?: Quota, Weight?: number }} namespace */
export function namespaceArguments(namespace) {
  const { Name, Description, Permissions, Nodes, MaxPriority, Quota, Weight } = namespace;
  return [
    ...["namespace", "put", Name],
    ...(Description ? ["--description", Description] : []),
    ...KINDS.flatMap(([kind]) => {
      const words = Permissions[kind];
      return words ? [`--${kind.toLowerCase()}`, words.join(",")] : [];
    }),
    ...(Permissions.Capabilities === false ? ["--no-capabilities"] : []),
    ...(Nodes ? ["--nodes", Nodes] : []),
    ...(MaxPriority === undefined ? [] : ["--max-priority", `${MaxPriority}`]),
    ...quotaArguments(Quota),
    ...(Weight === undefined ? [] : ["--weight", `${Weight}`]),
  ];
}

/** What jobs may ask for, in words. @param {Permissions} permissions */
export function permissionText(permissions) {
  const parts = KINDS.flatMap(([kind]) => {
    const words = permissions[kind];
    return words ? [`${kind.toLowerCase()}: ${words.join(", ") || "nothing"}`] : [];
  });
  if (permissions.Capabilities === false) parts.push("no capabilities");
  return parts.join("; ") || "everything";
}

/**
 * @typedef {{
 *   Name: string, Namespace: string, Type: string, Hosts: string[], Buckets: string[], User: string,
 * }} NewCredential `User` is a user name, or the ID of an access key
 */

/** @param {NewCredential} credential */
export function credentialArguments({ Name, Namespace, Type, Hosts, Buckets, User }) {
  return [
    ...["credential", "set", Name, "--namespace", Namespace, "--type", Type],
    ...Hosts.flatMap((host) => option("--host", host)),
    ...Buckets.flatMap((bucket) => option("--bucket", bucket)),
    ...option(Type === "s3" ? "--access-key-id" : "--username", User),
  ];
}

/** What the service gets of them. @param {NewCredential} credential @param {string} secret */
export function credentialBody({ Type, Hosts, Buckets, User }, secret) {
  const login = Type === "s3"
    ? { AccessKeyID: User, SecretAccessKey: secret }
    : User
    ? { Username: User, Password: secret }
    : { Token: secret };
  return { Type, Hosts, ...(Type === "s3" && Buckets.length ? { Buckets } : {}), Login: login };
}

// A line that is copied holds no secret: it takes the one that a variable of the shell has.
const VARIABLE = "$SECRET";

/** @param {string} line of jobctl, which reads a secret from its standard input */
export function withSecret(line) {
  return `printf %s "${VARIABLE}" | ${line}`;
}

/** A body for `curl` with the secret in this place. @param {(place: string) => unknown} body @param {string} [made] */
export function shellBody(body, made = VARIABLE) {
  const place = "@secret@";
  return quoted(JSON.stringify(body(place))).replace(place, () => `'"${made}"'`);
}

/** The secret as base64, which any bytes can be. */
export const ENCODED = `$(printf %s "${VARIABLE}" | base64 -w0)`;

/** Words, one on each line. @param {string} text */
export function words(text) {
  return text.split(/\s+/).filter(Boolean);
}

/** Labels, one on each line. @param {string} text @returns {Record<string, string>} */
export function labelsOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const [key, ...value] = line.split("=");
    return [key.trim(), value.join("=").trim()];
  }));
}

/**
 * @typedef {{
 *   TTLSeconds: number, Uses: number, Labels: Record<string, string>, NodeID: string,
 *   Bounds: Record<string, number>,
 * }} NewJoinToken
 */

/** @param {NewJoinToken} token */
export function joinTokenArguments({ TTLSeconds, Uses, Labels, NodeID, Bounds }) {
  return [
    ...["node", "token", "--ttl", `${TTLSeconds / 3600}h`, "--uses", String(Uses)],
    ...Object.entries(Labels).flatMap(([key, value]) => option("--label", `${key}=${value}`)),
    ...option("--for", NodeID),
    ...BOUNDS.flatMap(({ name, flag, suffix }) => Bounds[name] ? [flag, `${Bounds[name]}${suffix}`] : []),
  ];
}

/** @param {Record<string, string>} filters @param {number} limit */
export function auditArguments({ chain, user, operation, since }, limit) {
  return [
    ...["audit", "list"],
    ...option("--chain", chain),
    ...option("--user", user),
    ...option("--operation", operation),
    ...option("--since", since),
    ...option("--limit", limit),
  ];
}
