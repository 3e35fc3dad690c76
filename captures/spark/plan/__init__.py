"""What is read: files by path or URL, where they are cut into splits, and in which order they were captured."""
