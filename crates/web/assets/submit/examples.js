// Examples to start from; the first runs on any node with WebAssembly, without an image and without a network.

/** @import { Json } from "../../types.d.ts" */

// A module of 147 bytes that prints one line: fd_write of WASI preview 1, called once by _start.
const HELLO =
  "data:application/wasm;base64,AGFzbQEAAAABDAJgBH9/f38Bf2AAAAIjARZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxCGZkX3dyaXRlAAADAgEBBQMBAAEHEwIGbWVtb3J5AgAGX3N0YXJ0AAEKEAEOAEEBQQBBAUHAABAAGgsLJgEAQQALIAgAAAAYAAAASGVsbG8gZnJvbSBXZWJBc3NlbWJseSEK";

/** @type {{ name: string, text: string, job: Json }[]} */
export const EXAMPLES = [
  {
    name: "Hello",
    text: "A WebAssembly module of 147 bytes, part of the job itself",
    job: {
      Name: "hello",
      Type: "batch",
      Count: 1,
      Tasks: [{
        Name: "main",
        Engine: {
          Type: "wasm",
          Params: { EntryModule: { Source: { Type: "inline", Params: { URL: HELLO } } } },
        },
      }],
    },
  },
  {
    name: "Container",
    text: "A command in a Docker image, three times",
    job: {
      Name: "words",
      Type: "batch",
      Count: 3,
      Tasks: [{
        Name: "main",
        Engine: { Type: "docker", Params: { Image: "busybox", Parameters: ["echo", "hello"] } },
        Resources: { CPU: "0.5", Memory: "128MB" },
      }],
    },
  },
  {
    name: "Results",
    text: "Reads a file from the web, and keeps what it wrote",
    job: {
      Name: "count-lines",
      Type: "batch",
      Count: 1,
      Tasks: [{
        Name: "main",
        Engine: {
          Type: "docker",
          Params: { Image: "busybox", Parameters: ["sh", "-c", "wc -l /inputs/data > /outputs/lines"] },
        },
        InputSources: [{
          Source: { Type: "urldownload", Params: { URL: "https://example.com/data.txt" } },
          Target: "/inputs/data",
        }],
        ResultPaths: [{ Name: "outputs", Path: "/outputs" }],
        Publisher: { Type: "local" },
      }],
    },
  },
  {
    name: "Service",
    text: "Keeps two executions running until it is stopped",
    job: {
      Name: "web",
      Type: "service",
      Count: 2,
      Tasks: [{
        Name: "main",
        Engine: { Type: "docker", Params: { Image: "nginx:alpine" } },
        Network: { Type: "Full" },
        Resources: { CPU: "0.25", Memory: "64MB" },
      }],
    },
  },
];
