"""A folder to which captures are added: closed files in batches, and what each batch leaves to the next."""
