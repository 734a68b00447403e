// The page's program: it only moves what the server has rendered. Without it, links and forms work.
import "./actions.js";
import "./clock.js";
import "./copy.js";
import "./graph.js";
import "./keys.js";
import "./lazy.js";
import "./logs.js";
import "./navigate.js";
import "./exact-times.js";
import "./scrubber.js";
import "./selection.js";
import { connect } from "./stream.js";

connect();
