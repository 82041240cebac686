"""Read bounces and complaints, score addresses, and maintain the suppression list."""
