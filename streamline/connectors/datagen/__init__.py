"""The connector `datagen` of SQL: made-up rows. For streams there is `streamline.connectors.generator`."""
