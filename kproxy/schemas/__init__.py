"""Where schemas of payloads come from: a folder, or a registry."""
